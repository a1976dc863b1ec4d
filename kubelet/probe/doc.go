// Package probe checks containers with the probes of Kubernetes
// (https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/).
//
// A Set runs the probes of one pod. Its owner passes the pod and its running containers whenever
// they may have changed, and reads the results:
//
//	set := probe.NewSet(probe.Config{Prober: &probe.Client{Exec: exec}, Changed: wake})
//	defer set.Stop()
//	states := set.Update(pod, podIP, running)
//	if states["web"].Ready { ... }
//
// # Model
//
// A container that runs is Started once its startup probe has succeeded, or at once without one.
// Its other probes begin then. It is Ready while its readiness probe succeeds. It is unhealthy,
// which is final, when its liveness probe or its startup probe has failed. Each probe is tried
// every PeriodSeconds, first InitialDelaySeconds after the container has started. A result counts
// after SuccessThreshold or FailureThreshold equal ones in a row.
//
// A Set belongs to one container ID: a restarted container starts without results. A container
// that was Started or Ready in the pod's status stays so until a probe says otherwise, so that a
// restart of the kubelet does not take pods out of service. After such a restart, the first
// attempts are spread over a period.
//
// Readiness probes continue while a pod terminates; the other probes end.
//
// # Failure
//
// An attempt that cannot be made (a port without a name, a runtime that does not answer) is not a
// result, except that it is reported as an Unhealthy event. It is tried three times at once, and
// then again after the period, as in Kubernetes.
package probe
