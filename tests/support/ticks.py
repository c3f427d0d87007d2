"""One tick of a sensor, and its result."""

import dagster as dg


def ticked(sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    result = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
    assert isinstance(result, dg.SensorResult)
    return result


def requests(sensor: dg.SensorDefinition, instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    return list(ticked(sensor, instance).run_requests or [])


def tick(sensor: dg.SensorDefinition, instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
    """The one run that a tick asks for, or why it asks for none."""
    result = ticked(sensor, instance)
    match list(result.run_requests or []):
        case [request]:
            return request
        case []:
            assert isinstance(result.skip_reason, dg.SkipReason)
            return result.skip_reason
        case several:
            raise AssertionError(f"{len(several)} runs are asked for")
