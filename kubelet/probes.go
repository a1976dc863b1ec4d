package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/probe"
)

// A ProbeObserver observes the probes of the node's pods. It must be safe for concurrent use. Package
// probe/metrics has one.
type ProbeObserver interface {
	// Observe is called after each attempt. The result is "successful", "failed" or "unknown".
	Observe(pod *corev1.Pod, c *corev1.Container, kind probe.Kind, result string, took time.Duration)
	// Forget is called when the probes of a pod have ended; pod is nil if there were none.
	Forget(pod *corev1.Pod)
}

// newProbes returns the probes of the worker's pod. A change of their results requests a sync.
func (w *worker) newProbes() *probe.Set {
	config := probe.Config{
		Prober:  w.kubelet.config.Prober,
		Changed: w.poke,
		Event: func(pod *corev1.Pod, c *corev1.Container, reason, message string) {
			w.kubelet.events.Pod(pod, c, corev1.EventTypeWarning, reason, message)
		},
		Since: w.kubelet.since,
	}
	if o := w.kubelet.config.ProbeObserver; o != nil {
		config.Observe, config.Stopped = o.Observe, o.Forget
	}
	return probe.NewSet(config)
}

// probe makes the probes those of the running containers in state, and adds their results to it.
func (w *worker) probe(pod *corev1.Pod, state *lifecycle.State) {
	var running []probe.Running
	seen := map[string]bool{}
	for _, c := range state.Containers { // newest first
		if !seen[c.Name] && c.Phase == lifecycle.Running {
			running = append(running, probe.Running{Name: c.Name, ID: c.ID, StartedAt: c.Started})
		}
		seen[c.Name] = true
	}
	var ips []string
	if sandbox := state.Sandbox(); sandbox != nil {
		ips = sandbox.IPs
	}
	if pod.Spec.HostNetwork {
		ips = w.kubelet.config.hostIPs()
	}
	ip := ""
	if len(ips) > 0 {
		ip = ips[0]
	}
	state.Probes = w.probes.Update(pod, ip, running)
}

// answering returns a context for a command with a timeout. It is canceled with ctx, but has a
// moment more than the timeout, so that the runtime can end the command and say so.
func answering(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout+time.Second)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	return patient, func() { stop(); cancel() }
}

// executes returns a function that runs commands with the runtime's ExecSync; nil if it has none.
func executes(runtime Runtime) probe.ExecFunc {
	executor, ok := runtime.(Executor)
	if !ok {
		return nil
	}
	return func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, int32, error) {
		patient, cancel := answering(ctx, timeout)
		defer cancel()
		out, err := executor.ExecSync(patient, &runtimeapi.ExecSyncRequest{
			ContainerId: id, Cmd: command, Timeout: int64(timeout.Seconds()),
		})
		if status.Code(err) == codes.DeadlineExceeded {
			return nil, 0, fmt.Errorf("%w: %s", context.DeadlineExceeded, answer(err, "ExecSync").Message())
		}
		if err != nil {
			return nil, 0, answer(err, "ExecSync").Err()
		}
		return output(out), out.GetExitCode(), nil
	}
}

// maxOutput bounds the output of a command that is kept, in bytes, as in Kubernetes.
const maxOutput = 10 << 10

// output returns the beginning of what a command printed. It does not share the memory of the answer,
// which has up to 16 MiB.
func output(out *runtimeapi.ExecSyncResponse) []byte {
	var kept []byte
	for _, text := range [][]byte{out.GetStdout(), out.GetStderr()} {
		kept = append(kept, text[:min(len(text), maxOutput-len(kept))]...)
	}
	return kept
}
