# A Spark cluster that knows restmark: the wheel is built from this repository, then installed beside pyspark.
FROM rust:1.95-bookworm AS wheel
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip
RUN pip install --no-cache-dir --break-system-packages maturin==1.16.0
COPY . /src
RUN maturin build --locked --release --manifest-path /src/python/Cargo.toml --out /wheels

FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl pyspark==4.3.0 pandas==2.3.3
ENV PYSPARK_PYTHON=python3 SPARK_NO_DAEMONIZE=1
