"""For each of hadolint's codes that are on: a file with the defect, and one without."""

FROM = "FROM debian:12\n"

# code → (bad, good)
SAMPLES: dict[str, tuple[str, str]] = {
    "DL3000": (FROM + "WORKDIR app\n", FROM + "WORKDIR /app\n"),
    "DL3002": (FROM + "USER root\n", FROM + "USER app\n"),
    "DL3004": (FROM + "RUN sudo apt-get update\n", FROM + "RUN apt-get update\n"),
    "DL3006": ("FROM debian\n", "FROM here:5000/debian:12\n"),
    "DL3007": ("FROM debian:latest\n", FROM),
    "DL3011": (FROM + "EXPOSE 80000\n", FROM + "EXPOSE 8000 ${PORT:-3333}/tcp\n"),
    "DL3012": (
        FROM + 'HEALTHCHECK CMD ["a"]\nHEALTHCHECK CMD ["b"]\n',
        FROM + 'HEALTHCHECK CMD ["a"]\n',
    ),
    "DL3021": (
        FROM + "COPY a b c\n",
        FROM + 'COPY a b c/\nCOPY a \\\n  b .\nCOPY ["a", "b", "."]\n',
    ),
    "DL3022": (
        FROM + "COPY --from=gone a b\n",
        "FROM debian:12 AS here\n" + FROM + "COPY --from=here a /b\n",
    ),
    "DL3023": (
        "FROM debian:12 AS x\nCOPY --from=x a b\n",
        "FROM debian:12 AS x\nFROM debian:12 AS y\nCOPY --from=x a /b\n",
    ),
    "DL3024": (
        "FROM debian:12 AS x\nFROM debian:12 AS x\n",
        "FROM debian:12 AS x\nFROM debian:12 AS y\n",
    ),
    "DL3043": (FROM + "ONBUILD FROM debian:12\n", FROM + "ONBUILD RUN true\n"),
    "DL3044": (FROM + "ENV A=1 B=$A\n", FROM + "ENV A=1\nENV B=$A\n"),
    "DL3061": ("LABEL a=b\nFROM debian:12\n", FROM + "LABEL a=b\n"),
    "DL3063": ("FROM debian:12 AS scratch\n", "FROM debian:12 AS build\n"),
    "DL3064": (FROM + "ENV DB_PASSWORD=hunter2\n", FROM + "ENV DB_KEY_PATH=/a/db.key\n"),
    "DL3067": (
        "FROM debian:12 AS x\nFROM debian:12\nCOPY --from=x / /\n",
        "FROM tonistiigi/xx:1.1.0 AS xx\nFROM debian:12 AS y\nCOPY --from=xx / /\n"
        "FROM scratch\nCOPY --from=y / /\n",
    ),
    "DL4003": (FROM + 'CMD ["a"]\nCMD ["b"]\n', FROM + 'CMD ["a"]\n'),
    "DL4004": (FROM + 'ENTRYPOINT ["a"]\nENTRYPOINT ["b"]\n', FROM + 'ENTRYPOINT ["a"]\n'),
    "SC2115": (FROM + 'ARG D\nRUN rm -rf "$D/"\n', FROM + 'ARG D\nRUN rm -rf "${D:?}/"\n'),
    "SC2069": (FROM + "RUN make 2>&1 > log\n", FROM + "RUN make > log 2>&1\n"),
    "SC2210": (FROM + "RUN make > log 2>1\n", FROM + "RUN make > log 2>&1\n"),
    "SC2216": (FROM + "RUN ls | rm\n", FROM + "RUN ls | xargs rm\n"),
    "SC3010": (FROM + 'RUN [[ -n "$A" ]] && make\n', FROM + 'RUN [ -n "$A" ] && make\n'),
    "SC3014": (FROM + 'RUN [ "$A" == b ] && make\n', FROM + 'RUN [ "$A" = b ] && make\n'),
    "SC3001": (FROM + "RUN cat <(ls)\n", FROM + "RUN ls\n"),
    "SC3020": (FROM + "RUN make &> log\n", FROM + "RUN make > log 2>&1\n"),
    "SC2156": (
        FROM + "RUN find . -exec sh -c 'echo {}' \\;\n",
        FROM + "RUN find . -exec sh -c 'echo \"$1\"' sh {} \\;\n",
    ),
    "SC2283": (FROM + "RUN x = 5\n", FROM + "RUN x=5\n"),
    "SC2088": (FROM + 'RUN ls "~/x"\n', FROM + "RUN ls ~/x\n"),
}
