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
)

// A scheduler of one's own: the usual predicates, and one that keeps pods off
// nodes without an SSD.
func Example() {
	nodes, pods := localcache.NewMap[*corev1.Node](), localcache.NewMap[*corev1.Pod]() // in a cluster: informers
	for name, disk := range map[string]string{"a": "hdd", "b": "ssd", "c": "hdd"} {
		n := node(name, "4", "8Gi", "110")
		n.Labels = map[string]string{"disk": disk}
		nodes.Put(n)
	}
	pods.Put(pod("web", "500m", "128Mi"))

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
