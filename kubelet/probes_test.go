package kubelet_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/probe"
)

// answers holds the exit codes of commands in containers, by their first word.
type answers map[string]*atomic.Int32

func (a answers) exec(_ *runtimeapi.ContainerConfig, command []string) memruntime.Program {
	return func(_ context.Context, s memruntime.Streams) int32 {
		code := a[command[0]].Load()
		fmt.Fprintf(s.Stderr, "%s says %d", command[0], code)
		return code
	}
}

func execProbe(command string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{command}}},
		PeriodSeconds: 1, FailureThreshold: 1,
	}
}

// ready returns a condition for the web container's readiness and restarts.
func ready(is bool, restarts int32) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		c := firstStatus(pod)
		return c.Ready == is && c.RestartCount == restarts && (condition(pod, corev1.PodReady) == corev1.ConditionTrue) == is
	}
}

// A container is ready only when its readiness probe says so, and is restarted when its liveness
// probe fails, with upstream's events and a count that goes on.
func TestProbes(t *testing.T) {
	a := answers{"started": new(atomic.Int32), "alive": new(atomic.Int32), "ready": new(atomic.Int32)}
	a["started"].Store(1)
	a["ready"].Store(2)
	r := newRig(t, memruntime.Config{Exec: a.exec})
	r.start()
	pod := webPod("web")
	c := &pod.Spec.Containers[0]
	c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = execProbe("started"), execProbe("alive"), execProbe("ready")
	c.StartupProbe.FailureThreshold = 1000
	r.api.create(pod)
	r.api.awaitEvent(t, "web", "Unhealthy", "Startup probe failed: started says 1")
	r.api.await(t, "web", "running and not started", func(pod *corev1.Pod) bool {
		s := firstStatus(pod)
		return s.State.Running != nil && !s.Ready && s.Started != nil && !*s.Started
	})
	a["started"].Store(0)
	r.api.awaitEvent(t, "web", "Unhealthy", "Readiness probe failed: ready says 2")
	r.api.await(t, "web", "started and not ready", ready(false, 0))
	a["ready"].Store(0)
	r.api.await(t, "web", "ready", ready(true, 0))
	a["ready"].Store(2)
	r.api.await(t, "web", "not ready again", ready(false, 0))
	a["ready"].Store(0)
	r.api.await(t, "web", "ready again", ready(true, 0))

	a["alive"].Store(3)
	r.api.awaitEvent(t, "web", "Unhealthy", "Liveness probe failed: alive says 3")
	r.api.awaitEvent(t, "web", "Killing", "Container web failed liveness probe, will be restarted")
	a["alive"].Store(0)
	r.api.await(t, "web", "restarted and ready", ready(true, 1))

	// A restart of the kubelet takes no pod out of service.
	r.stop()
	a["ready"].Store(2)
	r.config.Prober = nil
	r.start()
	r.api.await(t, "web", "still ready, then not", ready(false, 1))
	if n := len(r.containers()); n > 2 {
		t.Errorf("%d containers", n)
	}
}

// observer is a kubelet.ProbeObserver that passes on what it learns of the pod web.
type observer struct{ observed, forgotten chan string }

func (o *observer) Observe(pod *corev1.Pod, c *corev1.Container, kind probe.Kind, result string, _ time.Duration) {
	select {
	case o.observed <- fmt.Sprint(pod.Name, " ", c.Name, " ", kind, " ", result):
	default: // the test waits for one only
	}
}

func (o *observer) Forget(pod *corev1.Pod) { o.forgotten <- pod.Name }

// An observer learns of attempts, and of the end of the pod's probes.
func TestProbeObserver(t *testing.T) {
	o := &observer{observed: make(chan string, 1), forgotten: make(chan string, 1)}
	a := answers{"ready": new(atomic.Int32)}
	r := newRig(t, memruntime.Config{Exec: a.exec})
	r.config.ProbeObserver = o
	r.start()
	pod := webPod("web")
	pod.Spec.Containers[0].ReadinessProbe = execProbe("ready")
	r.api.create(pod)
	if got := <-o.observed; got != "web web Readiness successful" {
		t.Errorf("observed %q", got)
	}
	r.stop()
	if got := <-o.forgotten; got != "web" {
		t.Errorf("forgot %q", got)
	}
}

// A pod on the host's network is probed at the node's address.
func TestNetworkProbe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	r := newRig(t, memruntime.Config{})
	r.config.Addresses[0].Address = "127.0.0.1"
	r.start()
	pod := webPod("web")
	pod.Spec.HostNetwork = true
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(listener.Addr().(*net.TCPAddr).Port)},
	}}
	r.api.create(pod)
	r.api.await(t, "web", "ready", ready(true, 0))
	_ = listener.Close()
	r.api.await(t, "web", "not ready", ready(false, 0))
}
