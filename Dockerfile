# syntax=docker/dockerfile:1
# The wheel is built in one stage and installed in the other: no source, no compiler and no pip cache in the image.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY router_strategies router_strategies
COPY loadtest loadtest
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[hub,redis]"

FROM python:3.11-slim-bookworm
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels "prefixway[hub,redis]" \
    && useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin prefixway
USER 65532
# Tokenizers that are downloaded go to /tmp, the one place that is writable when the root file system is not.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HF_HOME=/tmp/huggingface
EXPOSE 8080 9464
HEALTHCHECK --interval=10s --timeout=3s \
    CMD ["python", "-c", "import os, urllib.request as r; port = os.environ.get('PREFIXWAY_METRICS_LISTEN', ':9464').rpartition(':')[2]; r.urlopen(f'http://127.0.0.1:{port}/livez', timeout=2)"]
ENTRYPOINT ["prefixway"]
CMD ["serve"]
