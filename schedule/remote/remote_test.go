package remote_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/remote"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node(name, disk string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": disk}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("10")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func pod(name, scheduler string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
}

// A scheduler with a custom predicate handles the pods that name it: it binds those that fit a
// node, reports the others, and ignores all other pods.
func TestScheduler(t *testing.T) {
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...))
	api, err := client.New(client.InProcess(server.Transport(&user.Info{Name: "root", Groups: []string{user.Masters}})))
	if err != nil {
		t.Fatal(err)
	}
	ssd := schedule.PredicateFunc("SSD", func(_ *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
		if n.Node.Labels["disk"] == "ssd" {
			return schedule.Fits
		}
		return schedule.Refuse("node(s) had no SSD")
	})
	scheduler, err := remote.New(api, schedule.Config{Profiles: []schedule.Profile{
		{Name: "unused", Predicates: predicates.Default()},
		{Name: "ssd", Predicates: append(predicates.Default(), ssd)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- scheduler.Run(ctx) }()
	nodes, pods := typed.Nodes(api), typed.Pods(api)
	make := func(n *corev1.Node) {
		made, err := nodes.Create(ctx, n)
		if err == nil {
			made.Status = n.Status
			_, err = nodes.UpdateStatus(ctx, made)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	make(node("a", "hdd"))
	for _, p := range []*corev1.Pod{pod("ours", "ssd"), pod("theirs", "other")} {
		if _, err := pods.Create(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, is func(*corev1.Pod) bool) {
		t.Helper()
		for {
			p, err := pods.Get(ctx, "default", "ours")
			if err != nil {
				t.Fatalf("Get(ours) until %s: %v", what, err)
			}
			if is(p) {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	until("the condition", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return c.Message == "0/1 nodes are available: 1 node(s) had no SSD. "+
					"no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
			}
		}
		return false
	})
	make(node("b", "ssd"))
	until("the binding", func(p *corev1.Pod) bool { return p.Spec.NodeName == "b" })
	if p, err := pods.Get(ctx, "default", "theirs"); err != nil || p.Spec.NodeName != "" || len(p.Status.Conditions) > 0 {
		t.Errorf("the pod of another scheduler: %+v, error %v", p, err)
	}
	seen := map[string]bool{}
	for !seen["FailedScheduling"] || !seen["Scheduled"] {
		list, _, err := typed.Events(api).List(ctx, "default", metav1.ListOptions{})
		if err != nil {
			t.Fatalf("List() of events, of which %v are seen: %v", seen, err)
		}
		for _, e := range list {
			seen[e.Reason] = e.Source.Component == "ssd"
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNoClient(t *testing.T) {
	if _, err := remote.New(nil, schedule.Config{}); err == nil {
		t.Error("a scheduler without a client was made")
	}
}

func ExampleNew() {
	api, err := client.New(client.Config{Server: "https://127.0.0.1:6443"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer api.Close()
	scheduler, err := remote.New(api, schedule.Config{Name: "mine", Predicates: predicates.Default()})
	fmt.Println(scheduler != nil, err)
	// Output: true <nil>
}
