package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var podKind = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}

// FuzzDecode shows that no answer makes the decoder panic, and that a decoded object can be encoded
// and decoded again with the same result.
func FuzzDecode(f *testing.F) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"a": "b"}}}
	for _, protobuf := range []bool{true, false} {
		data, _, err := encode(p, podKind, protobuf)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(protobuf, data)
	}
	f.Add(false, []byte(`{"kind":"Pod","apiVersion":"v1","spec":null}`))
	f.Add(true, magic)
	f.Fuzz(func(t *testing.T, protobuf bool, data []byte) {
		contentType := map[bool]string{true: Protobuf, false: JSON}[protobuf]
		object := new(corev1.Pod)
		if decode(contentType, data, podKind, unmarshalMessage, object) != nil {
			return
		}
		once, contentType, err := encode(object, podKind, protobuf)
		if err != nil {
			return // an invalid quantity or time can be held but not written
		}
		again := new(corev1.Pod)
		if err := decode(contentType, once, podKind, unmarshalMessage, again); err != nil {
			t.Fatalf("its own encoding: %v", err)
		}
		twice, _, err := encode(again, podKind, false)
		if err != nil {
			t.Fatal(err)
		}
		first, _, err := encode(object, podKind, false)
		if err != nil || !protobuf && !bytes.Equal(first, twice) {
			t.Fatalf("%s\nbecame\n%s\n%v", first, twice, err)
		}
	})
}

// decodeList decodes a page of pods.
func decodeList(contentType string, data []byte, empty func() *corev1.Pod, add func([]*corev1.Pod)) (metav1.ListMeta, error) {
	meta, items, err := openList(contentType, data, podKind)
	if err != nil {
		return meta, err
	}
	return meta, decodeItems(contentType, items, podKind, unmarshalMessage, empty, nil, add)
}

// FuzzDecodeList shows that no list makes the decoder panic, and that it decodes a protobuf list
// like the Go list type.
func FuzzDecodeList(f *testing.F) {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Pod{{}, {}}}
	list.Items[1].Name = "web"
	data, _, err := encode(list, metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var pods []*corev1.Pod
		empty := func() *corev1.Pod { return new(corev1.Pod) }
		add := func(some []*corev1.Pod) { pods = append(pods, some...) }
		_, _ = decodeList(JSON, data, empty, add)
		pods = nil
		meta, err := decodeList(Protobuf, data, empty, add)
		if err != nil {
			return
		}
		_, raw, err := openEnvelope(data)
		if err != nil {
			t.Fatal(err)
		}
		var whole corev1.PodList
		if err := whole.Unmarshal(raw); err != nil {
			t.Fatalf("taken, but %v", err)
		}
		if len(whole.Items) != len(pods) || whole.ResourceVersion != meta.ResourceVersion {
			t.Fatalf("%d items at %q, not %d at %q", len(pods), meta.ResourceVersion, len(whole.Items), whole.ResourceVersion)
		}
		_ = eachField(raw, func(number uint64, item []byte) error {
			var p corev1.Pod
			if number != 2 || p.Unmarshal(item) != nil {
				return nil
			}
			// No server sends a field twice or out of order.
			if canonical, err := p.Marshal(); err != nil || !bytes.Equal(canonical, item) {
				return nil
			}
			namespace, name, revision, ok := peek(item)
			if ok != (p.Name != "" && p.ResourceVersion != "") || ok && (string(namespace) != p.Namespace || string(name) != p.Name || string(revision) != p.ResourceVersion) {
				t.Fatalf("peeked %s/%s at %s into %s", namespace, name, revision, &p)
			}
			return nil
		})
		for i, p := range pods {
			p.TypeMeta = metav1.TypeMeta{}
			if p.String() != whole.Items[i].String() {
				t.Fatalf("item %d: %s, not %s", i, p, &whole.Items[i])
			}
		}
	})
}

// FuzzEvents shows that no stream makes the readers panic or run forever.
func FuzzEvents(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 10, 0})
	f.Add([]byte(`{"type":"ADDED","object":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, next := range []func() (event, error){
			framed(bufio.NewReader(bytes.NewReader(data))),
			jsonStream(json.NewDecoder(bytes.NewReader(data))),
		} {
			for range len(data) + 1 {
				if _, err := next(); err != nil {
					break
				}
			}
		}
	})
}

// BenchmarkDecodeList decodes a page of pods of about a kilobyte each.
func BenchmarkDecodeList(b *testing.B) {
	list := &corev1.PodList{Items: make([]corev1.Pod, 500)}
	for i := range list.Items {
		list.Items[i].Name = "web"
		list.Items[i].Spec.Containers = []corev1.Container{{Name: "c", Image: "nginx",
			Env: []corev1.EnvVar{{Name: "A", Value: string(bytes.Repeat([]byte("x"), 900))}}}}
	}
	for _, protobuf := range []bool{true, false} {
		data, contentType, err := encode(list, metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, protobuf)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(map[bool]string{true: "protobuf", false: "json"}[protobuf]+"/pods=500", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeList(contentType, data, func() *corev1.Pod { return new(corev1.Pod) }, func([]*corev1.Pod) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
