package controllers

import (
	"fmt"
	"hash/fnv"

	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// suffixAlphabet is what Kubernetes makes name suffixes of: no vowels, so no
	// words, and nothing that is easily mistaken.
	suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength   = 5
	// maxPrefix leaves room for the suffix in a 63 character name.
	maxPrefix = 63 - suffixLength
)

// podName is the name of the pod with the given number of the controller uid.
func podName(prefix string, uid types.UID, number int) string {
	if len(prefix) > maxPrefix {
		prefix = prefix[:maxPrefix]
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

// podNames returns n names for new pods of owner: first those of attempts, of
// which nobody knows whether they succeeded, then the lowest that are free.
// pods are those of owner as they were when n was decided. Names of pods of
// others are passed over. A pod of owner that was not there when n was decided
// means that n is out of date: errStale.
func podNames(owner metav1.Object, pods []*corev1.Pod, attempts []string, n int, cache func(key string) (*corev1.Pod, bool)) ([]string, error) {
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
			name = podName(owner.GetName()+"-", owner.GetUID(), number)
		}
		if taken[name] {
			continue
		}
		taken[name] = true
		if pod, ok := cache(localcache.Key(owner.GetNamespace(), name)); !ok {
			names = append(names, name)
		} else if metav1.IsControlledBy(pod, owner) {
			return nil, errStale
		}
	}
	return names, nil
}

// newPod makes a pod from a template.
func newPod(owner metav1.Object, ref metav1.OwnerReference, template *corev1.PodTemplateSpec, name string) *corev1.Pod {
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
