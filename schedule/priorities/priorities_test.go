package priorities_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(cpu, memory, takenCPU, takenMemory int64) *schedule.NodeInfo {
	return &schedule.NodeInfo{
		Allocatable: schedule.Resources{MilliCPU: cpu, Memory: memory},
		NonZero:     schedule.Resources{MilliCPU: takenCPU, Memory: takenMemory},
	}
}

func pod(cpu, memory int64) *schedule.PodInfo {
	return &schedule.PodInfo{NonZero: schedule.Resources{MilliCPU: cpu, Memory: memory}}
}

// The first cases are worked out with upstream's formula by hand.
func TestLeastAllocated(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *schedule.PodInfo
		node *schedule.NodeInfo
		want int64
	}{
		// ((4000-3000)*100/4000 + (10000-5000)*100/10000) / 2
		{"part of it", pod(3000, 5000), node(4000, 10000, 0, 0), 37},
		{"with others", pod(1000, 2000), node(10000, 20000, 5000, 3000), 57},
		{"nothing", pod(0, 0), node(4000, 10000, 0, 0), 100},
		{"all of one", pod(4000, 0), node(4000, 10000, 0, 0), 50},
		{"more than there is", pod(9000, 20000), node(4000, 10000, 0, 0), 0},
		{"no memory there", pod(1000, 0), node(4000, 0, 0, 0), 75},
		{"nothing there", pod(1000, 1), node(0, 0, 0, 0), 0},
	} {
		if got := priorities.LeastAllocated().Score(test.pod, test.node); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func Example() {
	s := schedule.NewState(nil, priorities.Default(), 1)
	for name, taken := range map[string]string{"busy": "3", "idle": "0"} {
		s.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: list("cpu", "4", "memory", "8Gi")}})
		s.SetPod(schedule.NewPodInfo(requests("other-"+name, name, "cpu", taken, "memory", taken+"Gi")))
	}
	web := schedule.NewPodInfo(requests("web", "", "cpu", "500m", "memory", "1Gi"))
	for _, n := range s.Explain(web) {
		fmt.Println(n.Node, n.Total)
		for i, w := range priorities.Default() {
			fmt.Println("  ", w.Name(), n.Scores[i])
		}
	}
	// Output:
	// idle 462
	//    TaintToleration 100
	//    NodeAffinity 0
	//    LeastAllocated 87
	//    PodTopologySpread 0
	//    InterPodAffinity 0
	//    NodeResourcesBalancedAllocation 75
	//    ImageLocality 0
	// busy 406
	//    TaintToleration 100
	//    NodeAffinity 0
	//    LeastAllocated 31
	//    PodTopologySpread 0
	//    InterPodAffinity 0
	//    NodeResourcesBalancedAllocation 75
	//    ImageLocality 0
}

func list(pairs ...string) corev1.ResourceList {
	l := make(corev1.ResourceList)
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// requests returns a pod on a node that requests resources.
func requests(name, node string, pairs ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
		{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}}}}
}
