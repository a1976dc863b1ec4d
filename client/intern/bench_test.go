package intern_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/client/intern"
	corev1 "k8s.io/api/core/v1"
)

// BenchmarkUnmarshalPod decodes pods of a hundred templates, and pods that each have their own
// template, beside Unmarshal.
func BenchmarkUnmarshalPod(b *testing.B) {
	for _, templates := range []int{100, 10_000} {
		encoded := make([][]byte, 10_000)
		size := 0
		for i := range encoded {
			p := newPod(i%templates, i, true)
			p.ManagedFields, p.Annotations = nil, nil
			encoded[i] = marshal(b, p)
			size += len(encoded[i])
		}
		for name, unmarshal := range map[string]func([]byte, *corev1.Pod) error{
			"shared": intern.New().UnmarshalPod,
			"plain":  func(data []byte, p *corev1.Pod) error { return p.Unmarshal(data) },
		} {
			b.Run(fmt.Sprintf("%s/templates=%d", name, templates), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size / len(encoded)))
				i := 0
				for b.Loop() {
					if err := unmarshal(encoded[i%len(encoded)], new(corev1.Pod)); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}
