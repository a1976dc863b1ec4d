package apiserver

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"google.golang.org/protobuf/encoding/protowire"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// wireField is a field of a protobuf message. Its content is a message where it can be read
// as one, so that a mutant is well-formed but for what has been done to it.
type wireField struct {
	number protowire.Number
	kind   protowire.Type
	bytes  []byte // of a scalar, as written; or of a length-delimited field that is no message
	inner  []wireField
	// lie is added to the length of a length-delimited field.
	lie int
}

// parseWire reads a message; ok is false where it is none.
func parseWire(data []byte, level int) (fields []wireField, ok bool) {
	if level > 20 {
		return nil, false
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 || kind == protowire.StartGroupType || kind == protowire.EndGroupType {
			return nil, false
		}
		data = data[n:]
		n = protowire.ConsumeFieldValue(number, kind, data)
		if n < 0 {
			return nil, false
		}
		f := wireField{number: number, kind: kind, bytes: data[:n]}
		if kind == protowire.BytesType {
			f.bytes, _ = protowire.ConsumeBytes(data)
			if inner, ok := parseWire(f.bytes, level+1); ok && len(inner) > 0 {
				f.inner = inner
			}
		}
		fields, data = append(fields, f), data[n:]
	}
	return fields, true
}

func writeWire(to []byte, fields []wireField) []byte {
	for _, f := range fields {
		to = protowire.AppendTag(to, f.number, f.kind)
		if f.kind != protowire.BytesType {
			to = append(to, f.bytes...)
			continue
		}
		content := f.bytes
		if f.inner != nil {
			content = writeWire(nil, f.inner)
		}
		to = protowire.AppendVarint(to, uint64(max(0, len(content)+f.lie)))
		to = append(to, content...)
	}
	return to
}

// mutateWire changes one of the fields, somewhere below.
func mutateWire(random *rand.Rand, fields []wireField, level int) []wireField {
	if len(fields) == 0 {
		return append(fields, wireField{number: protowire.Number(1 + random.IntN(40)), kind: protowire.BytesType})
	}
	i := random.IntN(len(fields))
	f := &fields[i]
	if f.inner != nil && random.IntN(4) > 0 {
		f.inner = mutateWire(random, append([]wireField(nil), f.inner...), level+1)
		return fields
	}
	switch random.IntN(10) {
	case 0: // in itself
		copied := *f
		f.inner, f.bytes, f.kind = []wireField{copied}, nil, protowire.BytesType
	case 1: // many levels in itself
		for range random.IntN(400) {
			copied := *f
			*f = wireField{number: f.number, kind: protowire.BytesType, inner: []wireField{copied}}
		}
	case 2: // again
		fields = append(fields, *f)
	case 3: // often
		for range random.IntN(200) {
			fields = append(fields, *f)
		}
	case 4: // a length that is not so
		f.lie = []int{-1, 1, -len(f.bytes), 1 << 20, 1 << 40}[random.IntN(5)]
	case 5: // another type
		f.kind = []protowire.Type{protowire.VarintType, protowire.Fixed32Type, protowire.Fixed64Type, protowire.StartGroupType, protowire.EndGroupType, protowire.BytesType}[random.IntN(6)]
		f.bytes = []byte{1, 2, 3, 4, 5, 6, 7, 8}[:1+random.IntN(8)]
		f.inner = nil
	case 6: // another number
		f.number = protowire.Number(1 + random.IntN(40))
	case 7: // gone
		fields = append(fields[:i:i], fields[i+1:]...)
	case 8: // other content
		f.inner, f.bytes = nil, []byte{byte(random.Uint32()), byte(random.Uint32()), 0xff, 0x80}[:random.IntN(5)]
	case 9: // elsewhere
		j := random.IntN(len(fields))
		fields[j].inner, fields[j].bytes, fields[j].kind = f.inner, f.bytes, f.kind
	}
	return fields
}

// wireSample is an object with something in most kinds of fields.
type wireSample struct {
	into func() runtime.Object
	kind schema.GroupVersionKind
	data []byte
}

func wireSamples(t testing.TB) []wireSample {
	t.Helper()
	now := metav1.Unix(1e9, 0)
	meta := metav1.ObjectMeta{
		Name: "web", Namespace: "default", Labels: map[string]string{"a": "b"}, CreationTimestamp: now, Finalizers: []string{"a/b"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: "u"}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:x":{}}}`)}},
	}
	template := corev1.PodTemplateSpec{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"a": "b"},
		Containers: []corev1.Container{{Name: "c", Image: "i", Args: []string{"x"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}}}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
	var all []wireSample
	for _, one := range []struct {
		into func() runtime.Object
		kind schema.GroupVersionKind
		obj  interface{ Marshal() ([]byte, error) }
	}{
		{func() runtime.Object { return &corev1.Pod{} }, corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{ObjectMeta: meta, Spec: template.Spec}},
		{func() runtime.Object { return &corev1.ConfigMap{} }, corev1.SchemeGroupVersion.WithKind("ConfigMap"), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"c": {1}}}},
		{func() runtime.Object { return &appsv1.Deployment{} }, appsv1.SchemeGroupVersion.WithKind("Deployment"), &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}},
		{func() runtime.Object { return &appsv1.ControllerRevision{} }, appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), &appsv1.ControllerRevision{ObjectMeta: meta, Data: runtime.RawExtension{Raw: []byte(`{"a":[1]}`)}}},
		{func() runtime.Object { return &metav1.DeleteOptions{} }, schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}, &metav1.DeleteOptions{DryRun: []string{"All"}, Preconditions: metav1.NewUIDPreconditions("u")}},
	} {
		data, err := one.obj.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, wireSample{one.into, one.kind, data})
	}
	return all
}

// tryWire decodes a mutant of a sample. It gives an object that can be written again, or
// a 400.
func tryWire(t *testing.T, c *wire.Codec, s *wireSample, random *rand.Rand, changes int) bool {
	t.Helper()
	fields, ok := parseWire(s.data, 0)
	if !ok {
		t.Fatal("a sample cannot be read")
	}
	for range changes {
		if fields = mutateWire(random, fields, 0); len(writeWire(nil, fields)) > 64<<10 {
			break
		}
	}
	raw := writeWire(nil, fields)
	body, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: s.kind.GroupVersion().String(), Kind: s.kind.Kind}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	obj := s.into()
	_, err = c.DecodeBody(context.Background(), append(append([]byte(nil), wire.ProtoMagic...), body...), wire.Proto, "", s.kind, obj)
	if err != nil {
		if code := toStatus(err).Code; code != http.StatusBadRequest {
			t.Errorf("DecodeBody(a changed %s) = %v of code %d, want the code 400", s.kind.Kind, err, code)
		}
		return false
	}
	if _, err := c.Encode(wire.Proto, obj); err != nil {
		t.Errorf("%x cannot be written: %v", raw, err)
	}
	_, _ = c.Encode(wire.JSON, obj) // which refuses raw parts that are no JSON, and must not panic
	return true
}

// TestWireMutants decodes random mutants, of which some must be well-formed: what is wrong
// with the others lies deeper than their first bytes.
func TestWireMutants(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c, samples := wire.NewCodec(), wireSamples(t)
	good, all := 0, 1500
	for range all {
		if tryWire(t, c, &samples[random.IntN(len(samples))], random, 1+random.IntN(4)) {
			good++
		}
	}
	if good < all/10 || good > all*9/10 {
		t.Errorf("%d of %d mutants were taken", good, all)
	}
}

// FuzzWireMutants is TestWireMutants with the fuzzer's choice of seeds.
func FuzzWireMutants(f *testing.F) {
	for i := range 5 {
		f.Add(uint8(i), uint64(i), uint8(3))
	}
	c, samples := wire.NewCodec(), wireSamples(f)
	f.Fuzz(func(t *testing.T, sample uint8, seed uint64, changes uint8) {
		tryWire(t, c, &samples[int(sample)%len(samples)], rand.New(rand.NewPCG(seed, 1)), int(changes%12))
	})
}
