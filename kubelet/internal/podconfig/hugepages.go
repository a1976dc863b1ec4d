package podconfig

import (
	"strings"

	"github.com/planekit/planekit/kubelet/internal/machine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// hugePageLimits returns a container's limit of pages of each size that the machine has, in bytes: its
// own, or else that of the pod, or else none at all.
func hugePageLimits(pod *corev1.Pod, c *corev1.Container, sizes []string) []*runtimeapi.HugepageLimit {
	wanted := map[string]uint64{}
	add := func(limits corev1.ResourceList) {
		for name, limit := range limits {
			text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
			if !ok {
				continue
			}
			if size, err := resource.ParseQuantity(text); err == nil {
				wanted[machine.HugePages{Size: size.Value()}.Name()] = uint64(max(limit.Value(), 0))
			}
		}
	}
	if pod.Spec.Resources != nil {
		add(pod.Spec.Resources.Limits)
	}
	add(c.Resources.Limits)
	var list []*runtimeapi.HugepageLimit
	for _, size := range sizes {
		list = append(list, &runtimeapi.HugepageLimit{PageSize: size, Limit: wanted[size]})
	}
	return list
}
