"use strict";
document.documentElement.classList.add("script");
