// Package nodestatus computes the parts of a Node's status that follow from the machine and its
// runtime: what pods may use of it, its images, and the features of its runtime.
package nodestatus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The bounds of the list of images in a Node, as in Kubernetes.
const (
	DefaultImages = 50
	maxNames      = 5
)

// Images returns the largest images with their names, digests first; all if most is negative. Of equal
// images, the order depends only on their IDs, so that an unchanged list is equal.
func Images(list []*runtimeapi.Image, most int) []corev1.ContainerImage {
	if most < 0 {
		most = len(list)
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *runtimeapi.Image) int {
		return cmp.Or(cmp.Compare(b.GetSize(), a.GetSize()), cmp.Compare(b.GetId(), a.GetId()))
	})
	var out []corev1.ContainerImage
	for _, image := range list[:min(len(list), most)] {
		names := slices.Concat(image.GetRepoDigests(), image.GetRepoTags())
		out = append(out, corev1.ContainerImage{Names: names[:min(len(names), maxNames)], SizeBytes: int64(image.GetSize())})
	}
	return out
}

// Capacity returns the capacity of a Node: that of the machine, and resources that other programs
// have added to the Node.
func Capacity(machine, reported corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(machine)
	for name, q := range reported {
		if _, ours := machine[name]; !ours && strings.Contains(string(name), "/") {
			out[name] = q
		}
	}
	return out
}

// Allocatable returns what pods may use of capacity: what is left after reservations, and in memory
// also after huge pages.
func Allocatable(capacity corev1.ResourceList, reserved ...corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range capacity {
		q = q.DeepCopy()
		for _, r := range reserved {
			subtract(&q, r[name])
		}
		out[name] = q
	}
	for name, q := range capacity {
		if memory, ok := out[corev1.ResourceMemory]; ok && strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			subtract(&memory, q)
			out[corev1.ResourceMemory] = memory
		}
	}
	return out
}

// subtract subtracts b from a, which stays at least zero.
func subtract(a *resource.Quantity, b resource.Quantity) {
	if a.Sub(b); a.Sign() < 0 {
		a.Set(0)
	}
}

// CheckReserved returns an error if more is reserved of a resource than there is.
func CheckReserved(capacity corev1.ResourceList, reserved ...corev1.ResourceList) error {
	var excess []string
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		has := capacity[name]
		sum := resource.Quantity{Format: has.Format}
		for _, r := range reserved {
			sum.Add(r[name])
		}
		if sum.Cmp(has) > 0 {
			excess = append(excess, fmt.Sprintf("Resource %q has a reservation of %v but capacity of %v. Expected capacity >= reservation.", name, &sum, &has))
		}
	}
	if excess != nil {
		return fmt.Errorf("invalid Node Allocatable configuration. %s", strings.Join(excess, " "))
	}
	return nil
}
