package owner

import (
	"fmt"
	"hash/fnv"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// suffixAlphabet holds the letters of name suffixes in Kubernetes: no vowels, so
	// that there are no words, and none that look alike.
	suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength   = 5
	// MaxPrefix is the maximum length of a prefix: a name has at most 63 characters.
	MaxPrefix = 63 - suffixLength
)

// PodName returns the name of the pod with a number of the controller with a UID. It
// shortens a prefix longer than [MaxPrefix].
func PodName(prefix string, uid types.UID, number int) string {
	if len(prefix) > MaxPrefix {
		prefix = prefix[:MaxPrefix]
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", uid, number)
	sum := h.Sum64()
	var suffix [suffixLength]byte
	for i := range suffix {
		suffix[i] = suffixAlphabet[sum%uint64(len(suffixAlphabet))]
		sum /= uint64(len(suffixAlphabet))
	}
	return prefix + string(suffix[:])
}

// PodNames returns n names for new pods of owner: first those of attempts, whose outcome is not
// known, then the lowest free ones. pods are those of owner that the caller saw when it chose n. Names of
// pods of other owners are skipped. A cached pod of owner that is not in pods means that n is out of
// date, and the error is that of a stale cache.
func PodNames(owner metav1.Object, pods []*corev1.Pod, attempts []string, n int, cache func(key string) (*corev1.Pod, bool)) ([]string, error) {
	taken := make(map[string]bool, len(pods)+n)
	for _, pod := range pods {
		taken[pod.Name] = true
	}
	names := make([]string, 0, n)
	for number := -len(attempts); len(names) < n; number++ {
		var name string
		if number < 0 {
			name = attempts[len(attempts)+number]
		} else {
			name = PodName(owner.GetName()+"-", owner.GetUID(), number)
		}
		if taken[name] {
			continue
		}
		taken[name] = true
		if pod, ok := cache(localcache.Key(owner.GetNamespace(), name)); !ok {
			names = append(names, name)
		} else if metav1.IsControlledBy(pod, owner) {
			return nil, loop.ErrStale
		}
	}
	return names, nil
}

// NewPod returns a pod made from a template.
func NewPod(owner metav1.Object, ref metav1.OwnerReference, template *corev1.PodTemplateSpec, name string) *corev1.Pod {
	t := template.DeepCopy()
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			GenerateName:    owner.GetName() + "-",
			Namespace:       owner.GetNamespace(),
			Labels:          t.Labels,
			Annotations:     t.Annotations,
			Finalizers:      t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{ref},
		},
		Spec: t.Spec,
	}
}
