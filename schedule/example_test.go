package schedule_test

import (
	"context"
	"fmt"
	"log"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A scheduler of one's own: the usual predicates, and one that keeps pods off
// nodes without an SSD.
func Example() {
	nodes, pods := localcache.NewMap[*corev1.Node](), localcache.NewMap[*corev1.Pod]() // in a cluster: informers
	for name, disk := range map[string]string{"a": "hdd", "b": "ssd", "c": "hdd"} {
		nodes.Put(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": disk}},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}},
		})
	}
	pods.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	})

	ctx, cancel := context.WithCancel(context.Background())
	scheduler, err := schedule.New(schedule.Config{
		Predicates: append(predicates.Default(),
			schedule.PredicateFunc("SSD", func(_ *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
				if n.Node.Labels["disk"] == "ssd" {
					return schedule.Fits
				}
				return schedule.Refuse("node(s) had no SSD")
			})),
		Priorities: priorities.Default(),
		Nodes:      nodes,
		Pods:       pods,
		Bind: func(_ context.Context, pod *corev1.Pod, node string) error {
			fmt.Println(pod.Name, "runs on", node)
			cancel()
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := scheduler.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: web runs on b
}

// A priority of one's own uses the whole range of scores: here, a node without pods has 100 and a full
// one 0. Its weight says how much it counts beside the others.
func ExamplePriorityFunc() {
	emptiest := schedule.PriorityFunc("Emptiest", func(_ *schedule.PodInfo, n *schedule.NodeInfo) int64 {
		room := n.Node.Status.Allocatable.Pods().Value()
		return (room - int64(len(n.Pods))) * schedule.MaxScore / max(room, 1)
	})
	list := append(priorities.Default(), schedule.Weighted{Priority: emptiest, Weight: 2})
	fmt.Println(len(list), "priorities")
	node := &schedule.NodeInfo{Node: &corev1.Node{Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")},
	}}}
	fmt.Println("an empty node has", emptiest.Score(&schedule.PodInfo{}, node))
	// Output:
	// 8 priorities
	// an empty node has 100
}
