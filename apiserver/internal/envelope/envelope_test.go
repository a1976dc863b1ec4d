package envelope

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/internal/wire"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// TestProtoEvent compares a frame with one of the generated type.
func TestProtoEvent(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 20_000} {
		data := bytes.Repeat([]byte("d"), size)
		got, err := ProtoEvent(watch.Modified, data)
		if err != nil {
			t.Fatal(err)
		}
		event := metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: data}}
		want, err := event.Marshal()
		if err != nil || !bytes.Equal(got[4:], want) || int(got[2])<<8|int(got[3]) != len(want) {
			t.Errorf("of %d bytes: %q, want %q, %v", size, got, want, err)
		}
	}
}

// randomPod has metadata of all sizes, some of it absent.
func randomPod(random *rand.Rand) *corev1.Pod {
	text := func() string { return strings.Repeat("x", random.IntN(3)*random.IntN(150)) }
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: text(), Containers: []corev1.Container{{Name: text(), Image: text()}}}}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	p.Name, p.GenerateName, p.Namespace = text(), text(), text()
	for range random.IntN(4) {
		p.Labels = map[string]string{text(): text() + "<&>"}
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Name: text()})
	}
	return p
}

// FuzzFindParts: what is found in stored bytes stays inside them, and where the
// server could have written them, what is sent is the same object but for the
// resourceVersion.
func FuzzFindParts(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		data, err := wire.NewCodec().Encode(wire.Proto, randomPod(random))
		if err != nil {
			f.Fatal(err)
		}
		if _, ok := FindParts(data); !ok {
			f.Fatalf("no parts of %q", data)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		p, ok := FindParts(value)
		if !ok {
			return
		}
		message := p.AppendTo(nil, value, 12345)
		if len(message) != p.Size(12345) {
			t.Fatalf("%d bytes, announced %d", len(message), p.Size(12345))
		}
		stored, sent := &corev1.Pod{}, &corev1.Pod{}
		raw := value[int(p.end)-storedSize(p) : p.end]
		if stored.Unmarshal(raw) != nil {
			return
		}
		if again, err := stored.Marshal(); err != nil || !bytes.Equal(again, raw) {
			return
		}
		if err := sent.Unmarshal(message); err != nil || sent.ResourceVersion != "12345" {
			t.Fatalf("sent as %v, %v", sent, err)
		}
		if sent.ResourceVersion = ""; !apiequality.Semantic.DeepEqual(stored, sent) {
			t.Fatalf("stored %v\nsent %v", stored, sent)
		}
	})
}

// storedSize is the length of the message that p was found in.
func storedSize(p Parts) int {
	meta := int(p.rest - p.meta)
	return 1 + UvarintSize(meta) + meta + int(p.end-p.rest)
}
