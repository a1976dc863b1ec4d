package remote_test

import (
	"context"
	"slices"
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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPreempts preempts a pod through the API server: the victim says why it ends, the status of the pod
// that waits names its node, and it runs there when the victim is gone.
func TestPreempts(t *testing.T) {
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...))
	api, err := client.New(client.InProcess(server.Transport(&user.Info{Name: "root", Groups: []string{user.Masters}})))
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := remote.New(api, schedule.Config{Name: "mine", Predicates: predicates.Default()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- scheduler.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	n := node("a", "hdd")
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("10")}
	made, err := typed.Nodes(api).Create(ctx, n)
	if err == nil {
		made.Status = n.Status
		_, err = typed.Nodes(api).UpdateStatus(ctx, made)
	}
	if err != nil {
		t.Fatal(err)
	}
	pods := typed.Pods(api)
	create := func(name string, priority int32) {
		p := pod(name, "mine")
		p.Spec.Priority = &priority
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		if _, err := pods.Create(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	until := func(name, what string, is func(*corev1.Pod) bool) {
		t.Helper()
		for {
			p, err := pods.Get(ctx, "default", name)
			if err != nil {
				t.Fatalf("Get(%s) until %s: %v", name, what, err)
			}
			if is(p) {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	create("batch", 0)
	until("batch", "batch is bound", func(p *corev1.Pod) bool { return p.Spec.NodeName == "a" })
	create("urgent", 1000)
	until("batch", "batch ends", func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler &&
				c.Message == "mine: preempting to accommodate a higher priority pod"
		})
	})
	until("urgent", "the node is reserved", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName == "a" && p.Spec.NodeName == "" })
	now := int64(0) // as a kubelet does when the pod has ended
	if err := pods.Delete(ctx, "default", "batch", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	until("urgent", "urgent is bound", func(p *corev1.Pod) bool { return p.Spec.NodeName == "a" })
	for {
		events, _, err := typed.Events(api).List(ctx, "default", metav1.ListOptions{FieldSelector: "reason=Preempted,involvedObject.name=batch"})
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 1 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
}
