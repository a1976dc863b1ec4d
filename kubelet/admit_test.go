package kubelet_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/admission"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/shutdown"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// inBubble runs a test with a kubelet on a runtime in memory, in the time of a bubble. The node has two
// cpus.
func inBubble(t *testing.T, c memruntime.Config, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		c.Socket = "/not/listened/at"
		runtime, err := memruntime.New(c)
		if err != nil {
			t.Fatal(err)
		}
		r := rigOn(t, runtime, runtime)
		r.config.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")}
		test(t, r)
		r.stop()
	})
}

// cpuPod returns a pod that requests cpu.
func cpuPod(name, cpu string) *corev1.Pod {
	pod := webPod(name)
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return pod
}

// failed reports whether a pod has failed with a reason and a message.
func failed(reason, message string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return pod != nil && pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == reason && pod.Status.Message == message
	}
}

// TestAdmission: a pod that the node has no room for fails with the reason, and does not start. The
// room of a pod that has ended or was deleted is free again.
func TestAdmission(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.config.Admission = []admission.Handler{admission.HandlerFunc(func(a admission.Request) admission.Verdict {
			if a.Pod.Labels["team"] == "red" {
				return admission.Verdict{Reason: "NoTeamRed", Message: fmt.Sprintf("%s has %d pods", a.Node.Name, len(a.Others))}
			}
			return admission.Verdict{}
		})}
		r.start()
		r.api.create(cpuPod("first", "1500m"))
		r.api.await(t, "first", "running", running)
		r.api.create(cpuPod("second", "600m"))
		const message = "Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"
		refused := r.api.await(t, "second", "refused", failed("OutOfcpu", "Pod was rejected: "+message))
		r.api.awaitEvent(t, "second", "OutOfcpu", message)
		if c := podCondition(refused, corev1.DisruptionTarget); c != nil || len(refused.Status.ContainerStatuses) > 0 {
			t.Errorf("status: %+v", refused.Status)
		}
		red := webPod("red")
		red.Labels = map[string]string{"team": "red"}
		r.api.create(red)
		r.api.await(t, "red", "refused", failed("NoTeamRed", "Pod was rejected: node-1 has 1 pods"))
		r.api.awaitEvent(t, "red", "NoTeamRed", "node-1 has 1 pods")

		r.api.delete("first", 1)
		r.api.await(t, "first", "gone", gone)
		job := cpuPod("job", "2")
		job.Spec.ActiveDeadlineSeconds = new(int64(30))
		r.api.create(job)
		r.api.await(t, "job", "running", running)
		r.api.await(t, "job", "over", failed("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"))
		r.api.create(cpuPod("last", "2"))
		r.api.await(t, "last", "running", running)
	})
}

// TestLabelsChange: a pod is refused by labels and taints of the Node as they are in the API.
func TestLabelsChange(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.start()
		change := func(change func(*corev1.Node)) {
			r.api.mu.Lock()
			defer r.api.mu.Unlock()
			r.api.node = r.api.node.DeepCopy()
			change(r.api.node)
		}
		zoned := webPod("zoned")
		zoned.Spec.NodeSelector = map[string]string{"zone": "a"}
		change(func(n *corev1.Node) { n.Labels["zone"] = "a" })
		r.api.create(zoned) // at once, before the kubelet reads its Node again
		r.api.await(t, "zoned", "running", running)
		change(func(n *corev1.Node) { n.Labels["zone"] = "b" })
		time.Sleep(11 * time.Second)
		zoned.Name = "late"
		r.api.create(zoned)
		r.api.await(t, "late", "refused", failed("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"))
		change(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "bad", Effect: corev1.TaintEffectNoExecute}}
		})
		time.Sleep(11 * time.Second)
		r.api.create(webPod("tainted"))
		r.api.await(t, "tainted", "refused", failed("TaintToleration", "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"))
		r.api.await(t, "zoned", "running", running)
	})
}

// TestRestartKeepsRoom: after a restart, the pods that ran keep their room also on a node that has
// become smaller, and those that never started come after them in the order of their creation.
func TestRestartKeepsRoom(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.start()
		for i := range 3 {
			r.api.create(cpuPod(fmt.Sprint("old-", i), "500m"))
			r.api.await(t, fmt.Sprint("old-", i), "running", running)
		}
		r.stop()
		start := time.Now()
		for i, age := range []int{1, 3, 2} {
			pod := cpuPod(fmt.Sprint("new-", age), "300m")
			pod.CreationTimestamp = metav1.Time{Time: start.Add(-time.Duration(age*60+i) * time.Second)}
			r.api.create(pod)
		}
		r.start()
		r.api.await(t, "new-3", "running", running)
		for _, name := range []string{"new-1", "new-2"} {
			r.api.await(t, name, "refused", func(pod *corev1.Pod) bool { return pod.Status.Reason == "OutOfcpu" })
		}
		r.stop()
		r.config.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("4Gi")}
		r.start()
		time.Sleep(time.Minute)
		for _, name := range []string{"old-0", "old-1", "old-2", "new-3"} {
			if pod := r.api.await(t, name, "running", running); pod.Status.ContainerStatuses[0].RestartCount != 0 {
				t.Errorf("after restarts of the kubelet the pod %s has status %+v, want no restart of its container", name, pod.Status)
			}
		}
		// The runtime knows what ran, also if the API was never told.
		r.api.create(webPod("small"))
		r.api.await(t, "small", "running", running)
	})
}

// deaf is a runtime that does not list its sandboxes for a number of calls.
type deaf struct {
	*memruntime.Runtime
	calls atomic.Int32
}

func (d *deaf) ListPodSandbox(ctx context.Context, in *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if d.calls.Add(-1) >= 0 {
		return nil, fmt.Errorf("not now")
	}
	return d.Runtime.ListPodSandbox(ctx, in)
}

// TestRuntimeComesLate: a kubelet whose API never learned what runs asks the runtime, until it
// answers, before it gives the room away.
func TestRuntimeComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime, err := memruntime.New(memruntime.Config{Socket: "/not/listened/at"})
		if err != nil {
			t.Fatal(err)
		}
		d := &deaf{Runtime: runtime}
		r := rigOn(t, d, runtime)
		r.config.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		r.start()
		r.api.create(cpuPod("old", "2"))
		r.api.await(t, "old", "running", running)
		r.stop()
		r.api.mu.Lock()
		old, _ := r.api.pods.Get("default/old")
		old = old.DeepCopy()
		old.Status = corev1.PodStatus{Phase: corev1.PodPending}
		old.ResourceVersion = r.api.touch()
		r.api.pods.Put(old)
		r.api.mu.Unlock()
		first := cpuPod("a-first", "1")
		r.api.create(first) // has no creation time, and so is the older one
		d.calls.Store(5)
		r.start()
		r.api.await(t, "a-first", "refused", failed("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 2000, capacity: 2000"))
		if pod := r.api.await(t, "old", "running", running); pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("after a restart of the kubelet the pod old has status %+v, want no restart of its container", pod.Status)
		}
		r.stop()
	})
}

// TestPreemption: a critical pod starts once the pods in its way have ended, which keep their grace
// periods.
func TestPreemption(t *testing.T) {
	inBubble(t, memruntime.Config{Behave: func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{IgnoresTerm: c.Image.GetUserSpecifiedImage() == "stubborn"}
	}}, func(t *testing.T, r *rig) {
		r.start()
		victim := cpuPod("victim", "1500m")
		victim.Spec.Containers[0].Image = "stubborn"
		victim.Spec.TerminationGracePeriodSeconds = new(int64(20))
		r.api.create(victim)
		r.api.create(cpuPod("other", "200m"))
		r.api.await(t, "victim", "running", running)
		r.api.await(t, "other", "running", running)
		began := time.Now()
		critical := cpuPod("critical", "1")
		critical.Spec.Priority = new(int32(2_000_000_000))
		r.api.create(critical)
		r.api.await(t, "critical", "running", running)
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("the critical pod has waited for %v", took)
		}
		pod := r.api.await(t, "victim", "preempted", failed("Preempting", "Preempted in order to admit critical pod"))
		if c := podCondition(pod, corev1.DisruptionTarget); c == nil || c.Reason != "TerminationByKubelet" || c.Message != "Pod was preempted by Kubelet to accommodate a critical pod." {
			t.Errorf("condition: %+v", c)
		}
		r.api.awaitEvent(t, "victim", "Preempting", "Preempted in order to admit critical pod")
		r.api.await(t, "other", "running", running)
	})
}

// TestPreemptionAfterRestart: a critical pod that was bound while the kubelet was down ends one of the
// pods that it finds.
func TestPreemptionAfterRestart(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.start()
		for i := range 4 {
			r.api.create(cpuPod(fmt.Sprint("old-", i), "500m"))
			r.api.await(t, fmt.Sprint("old-", i), "running", running)
		}
		r.stop()
		critical := cpuPod("critical", "500m")
		critical.Spec.Priority = new(int32(2_000_000_000))
		r.api.create(critical)
		r.start()
		r.api.await(t, "critical", "running", running)
		time.Sleep(time.Minute)
		ended := 0
		for i := range 4 {
			if pod, _ := r.api.pods.Get(fmt.Sprint("default/old-", i)); !running(pod) {
				ended++
				r.api.await(t, pod.Name, "preempted", failed("Preempting", "Preempted in order to admit critical pod"))
			}
		}
		if ended != 1 {
			t.Errorf("%d pods have ended", ended)
		}
	})
}

// TestPreemptionIsBounded: a victim that the runtime cannot stop does not keep the critical pod from
// starting for ever.
func TestPreemptionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime, err := memruntime.New(memruntime.Config{Socket: "/not/listened/at"})
		if err != nil {
			t.Fatal(err)
		}
		r := rigOn(t, unstoppable{runtime}, runtime)
		r.config.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		r.start()
		r.api.create(cpuPod("victim", "2"))
		r.api.await(t, "victim", "running", running)
		began := time.Now()
		critical := cpuPod("critical", "1")
		critical.Spec.Priority = new(int32(2_000_000_000))
		r.api.create(critical)
		r.api.await(t, "critical", "running", running)
		// The default grace period of 30 s, and half of it.
		if took := time.Since(began); took != 45*time.Second {
			t.Errorf("the critical pod has waited for %v", took)
		}
		r.stop()
	})
}

// unstoppable is a runtime that stops no container.
type unstoppable struct{ *memruntime.Runtime }

func (unstoppable) StopContainer(context.Context, *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	return nil, fmt.Errorf("no container can be stopped")
}

// TestShutdown: pods end in the order of their priority, each group within its time, and the node
// says so and takes no new ones.
func TestShutdown(t *testing.T) {
	inBubble(t, memruntime.Config{Behave: func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{IgnoresTerm: c.Image.GetUserSpecifiedImage() == "stubborn"}
	}}, func(t *testing.T, r *rig) {
		r.config.Shutdown = shutdown.Config{GracePeriod: 30 * time.Second, CriticalPods: 10 * time.Second}
		r.start()
		critical := webPod("critical")
		critical.Spec.Priority = new(int32(2_000_000_000))
		r.api.create(critical)
		stubborn := webPod("stubborn")
		stubborn.Spec.Containers[0].Image = "stubborn"
		stubborn.Spec.TerminationGracePeriodSeconds = new(int64(3600))
		r.api.create(stubborn)
		r.api.create(webPod("web"))
		for _, name := range []string{"critical", "stubborn", "web"} {
			r.api.await(t, name, "running", running)
		}
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- r.kubelet.Shutdown(context.Background()) }()
		terminated := failed("Terminated", "Pod was terminated in response to imminent node shutdown.")
		web := r.api.await(t, "web", "terminated", terminated)
		if c := podCondition(web, corev1.DisruptionTarget); c == nil || c.Reason != "TerminationByKubelet" || c.Message != web.Status.Message {
			t.Errorf("condition: %+v", c)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a willing pod has taken %v", took)
		}
		r.api.create(webPod("late"))
		r.api.await(t, "late", "refused", failed("NodeShutdown", "Pod was rejected: Pod was rejected as the node is shutting down."))
		r.api.awaitEvent(t, "late", "NodeShutdown", "Pod was rejected as the node is shutting down.")
		r.api.awaitEvent(t, "node-1", "NodeNotReady", "Node node-1 status is now: NodeNotReady")
		node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
		if c := nodeReady(node); err != nil || c.Status != corev1.ConditionFalse || c.Reason != "KubeletNotReady" || c.Message != "node is shutting down" {
			t.Errorf("node: %+v %v", c, err)
		}
		time.Sleep(19 * time.Second)
		r.api.await(t, "critical", "running", running)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("the shutdown has taken %v", took)
		}
		if pod, _ := r.api.pods.Get("default/critical"); !terminated(pod) {
			t.Errorf("the critical pod when the shutdown is over: %+v", pod.Status)
		}
		r.api.await(t, "stubborn", "terminated", terminated) // it was killed when its time was over
	})
}

// TestShutdownIsBounded: the time of pods that do not end, or whose status cannot be written, is over
// in time; a canceled shutdown returns at once.
func TestShutdownIsBounded(t *testing.T) {
	inBubble(t, memruntime.Config{Behave: func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{IgnoresTerm: true}
	}}, func(t *testing.T, r *rig) {
		r.config.Shutdown = shutdown.Config{ByPodPriority: []shutdown.Period{{Priority: 0, Grace: 7 * time.Second}}}
		r.start()
		r.api.create(webPod("web"))
		r.api.await(t, "web", "running", running)
		r.api.mu.Lock()
		r.api.down = true
		r.api.mu.Unlock()
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.kubelet.Shutdown(short); err != context.DeadlineExceeded || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := r.kubelet.Shutdown(t.Context()); err != nil || time.Since(began) != 8*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestShutdownOfNothing: without a configuration, pods go on, and only the node changes.
func TestShutdownOfNothing(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.start()
		r.api.create(webPod("web"))
		r.api.await(t, "web", "running", running)
		if err := r.kubelet.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		r.api.await(t, "web", "running", running)
		r.api.create(webPod("late"))
		r.api.await(t, "late", "refused", failed("NodeShutdown", "Pod was rejected: Pod was rejected as the node is shutting down."))
		r.api.awaitEvent(t, "node-1", "NodeShutdown", "Shutdown manager detected shutdown event")
		r.kubelet.CancelShutdown()
		r.api.awaitEvent(t, "node-1", "NodeShutdown", "Shutdown manager detected shutdown cancellation")
		r.api.create(webPod("later"))
		r.api.await(t, "later", "running", running)
		time.Sleep(time.Minute)
		node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
		if c := nodeReady(node); err != nil || c.Status != corev1.ConditionTrue {
			t.Errorf("node: %+v %v", c, err)
		}
	})
}

// TestAdmissionConfig: what New refuses.
func TestAdmissionConfig(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.stop = func() {}
		for want, change := range map[string]func(*kubelet.Config){
			`the sysctls "vm.swappiness" are not known to be namespaced`:              func(c *kubelet.Config) { c.AllowedUnsafeSysctls = []string{"vm.swappiness"} },
			"the grace period of critical pods 1s is longer than that of all pods 0s": func(c *kubelet.Config) { c.Shutdown.CriticalPods = time.Second },
		} {
			config := r.config
			change(&config)
			if _, err := kubelet.New(config); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("New with AllowedUnsafeSysctls %q and Shutdown %+v = %v, want an error with %q",
					config.AllowedUnsafeSysctls, config.Shutdown, err, want)
			}
		}
	})
}
