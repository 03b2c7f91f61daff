"""Pages in a local browser, over one secure base (extra ``web``).

``server.serve`` and ``server.running`` serve a ``Site``, which is made of ``Part``s. To add a page:

1. a template in ``web/templates`` that extends ``base.html``; a form takes ``{{ csrf() }}``, a
   link ``{{ url('/path') }}``, a script or style of ``web/static`` ``{{ static('name.js') }}``;
2. a function ``Visit -> Response`` that ends in ``visit.render(template, ...)``, or for an action
   in ``visit.redirect(path, note)``; it runs in a thread, so it may block;
3. a ``Part`` with ``Page``, ``Action`` and ``Stream`` entries, given to the ``Site``.

The base checks who asks and from where, and escapes every value. A page cannot leave that out: an
action is reached only by a POST of a person who may act, from our own page, with its CSRF token.
Everything can be read without JavaScript; a script only adds to it.
"""
