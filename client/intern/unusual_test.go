package intern_test

import (
	"bytes"
	"testing"

	"github.com/planekit/planekit/client/intern"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// part is one field of a message, with its tag.
type part []byte

// split returns the fields of a message.
func split(t testing.TB, data []byte) []part {
	var all []part
	for len(data) > 0 {
		_, _, n := protowire.ConsumeField(data)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		all = append(all, data[:n])
		data = data[n:]
	}
	return all
}

func join(all ...part) []byte {
	var data []byte
	for _, p := range all {
		data = append(data, p...)
	}
	return data
}

func message(number protowire.Number, data []byte) part {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), data)
}

func value(p part) []byte {
	_, _, n := protowire.ConsumeTag(p)
	v, _ := protowire.ConsumeBytes(p[n:])
	return v
}

// unusual returns encodings that no marshaller produces. Other decoders accept some of them.
func unusual(t testing.TB) map[string][]byte {
	top := split(t, marshal(t, newPod(1, 4, true)))
	meta, spec, status := split(t, value(top[0])), split(t, value(top[1])), split(t, value(top[2]))
	reversed := func(all []part) []byte {
		var data []byte
		for _, p := range all {
			data = append(append([]byte(nil), p...), data...)
		}
		return data
	}
	doubled := func(all []part) []byte { return join(append(append([]part(nil), all...), all...)...) }
	each := func(all []part) []byte {
		var data []byte
		for _, p := range all {
			data = append(append(data, p...), p...)
		}
		return data
	}
	with := func(number int, data []byte) []byte {
		all := append([]part(nil), top...)
		all[number-1] = message(protowire.Number(number), data)
		return join(all...)
	}
	group := protowire.AppendTag(protowire.AppendTag(nil, 200, protowire.StartGroupType), 200, protowire.EndGroupType)
	number := func(n protowire.Number) part {
		return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), 1<<40)
	}
	fixed := protowire.AppendFixed32(protowire.AppendFixed64(protowire.AppendTag(nil, 90, protowire.Fixed64Type), 7), 0)[:9+1]
	m := map[string][]byte{
		"nothing":                  {},
		"reversed":                 reversed(top),
		"reversed metadata":        with(1, reversed(meta)),
		"reversed spec":            with(2, reversed(spec)),
		"reversed status":          with(3, reversed(status)),
		"twice":                    doubled(top),
		"metadata twice":           with(1, doubled(meta)),
		"spec twice":               with(2, doubled(spec)),
		"status twice":             with(3, doubled(status)),
		"each of metadata twice":   with(1, each(meta)),
		"each of the spec twice":   with(2, each(spec)),
		"each of the status twice": with(3, each(status)),
		"in two pieces":            join(message(1, join(meta[:5]...)), message(1, join(meta[5:]...)), top[1], top[2]),
		"an unknown field":         append(join(top...), message(99, []byte("x"))...),
		"an unknown number":        with(2, append(join(spec...), number(99)...)),
		"an unknown fixed number":  with(2, append(join(spec...), fixed...)),
		"an unknown group":         with(2, append(join(spec...), group...)),
		"an unclosed group":        with(2, append(join(spec...), group[:2]...)),
		"a number for a name":      with(1, append(join(meta...), number(1)...)),
		"a number for labels":      with(1, append(join(meta...), number(11)...)),
		"a number for conditions":  with(3, append(join(status...), number(2)...)),
		"a message for a number":   with(2, append(join(spec...), message(25, []byte("x"))...)),
		"field zero":               with(1, append(join(meta...), 2, 0)),
		"a field far away":         append(join(top...), message(1<<28, nil)...),
		"a long tag":               with(1, append(join(meta...), 0x8a, 0x80, 0x80, 0, 1, 'x')),
		"a long length":            with(1, append(join(meta...), 1<<3|2, 0x81, 0, 'x')),
		"a huge length":            with(1, append(join(meta...), 1<<3|2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)),
		"a length that overflows":  with(1, append(join(meta...), 1<<3|2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)),
		"no name":                  with(1, append(join(meta...), message(1, nil)...)),
		"empty labels":             with(1, message(11, nil)),
		"a label without a value":  with(1, message(11, message(1, []byte("a")))),
		"a label in reverse":       with(1, message(11, join(message(2, []byte("a")), message(1, []byte("b"))))),
		"a label with more":        with(1, message(11, join(message(1, []byte("a")), message(2, []byte("b")), message(3, []byte("c"))))),
		"a label twice":            with(1, join(message(11, join(message(1, []byte("a")), message(2, []byte("b")))), message(11, join(message(1, []byte("a")), message(2, []byte("c")))))),
		"labels apart":             with(1, join(message(11, join(message(1, []byte("a")), message(2, nil))), message(1, []byte("x")), message(11, join(message(1, []byte("b")), message(2, nil))))),
		"an empty volume":          with(2, join(message(1, nil), message(1, nil))),
		"an empty container":       with(2, join(message(2, nil), message(2, message(9, nil)))),
		"empty time":               with(3, message(7, nil)),
		"time zero":                with(3, message(7, []byte{8, 0, 16, 0})),
		"time with nanoseconds":    with(3, message(7, []byte{8, 1, 16, 0xff, 1})),
		"time in reverse":          with(3, message(7, []byte{16, 0, 8, 1})),
		"time before 1970":         with(3, message(7, []byte{8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 16, 0})),
		"time that overflows":      with(3, message(7, []byte{8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 16, 0})),
		"broken time":              with(3, message(7, []byte{8, 0xff, 0xff, 0xff})),
		"half of time":             with(3, message(7, []byte{8, 1, 16})),
		"time and more":            with(3, message(7, []byte{8, 1, 8, 2})),
	}
	return m
}

// TestUnusual decodes unusual encodings with a table that has the usual ones, and with one that has
// the unusual ones.
func TestUnusual(t *testing.T) {
	for name, data := range unusual(t) {
		t.Run(name, func(t *testing.T) {
			table := intern.New()
			usual := marshal(t, newPod(1, 4, true))
			for range 3 {
				compare(t, table, usual)
			}
			for range 4 {
				compare(t, table, data)
			}
			compare(t, table, usual)
		})
	}
}

// TestDamaged decodes prefixes of a pod, and pods with one flipped bit.
func TestDamaged(t *testing.T) {
	table := intern.New()
	data := marshal(t, newPod(1, 4, true))
	for i := range data {
		compare(t, table, data[:i])
	}
	for i := range data {
		flipped := bytes.Clone(data)
		flipped[i] ^= 1 << (i % 8)
		compare(t, table, flipped)
	}
	compare(t, table, data)
}

// TestNotEmpty decodes into pods that have held another value.
func TestNotEmpty(t *testing.T) {
	table := intern.New()
	for range 3 {
		p := newPod(2, 7, false)
		if err := table.UnmarshalPod(marshal(t, newPod(1, 4, true)), p); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(marshal(t, p), marshal(t, newPod(1, 4, true))) {
			t.Fatal("something is left of what the pod was")
		}
	}
	compare(t, table, marshal(t, &corev1.Pod{}))
}

// FuzzUnmarshalPod decodes the same data with a table that has seen it and with one that has seen
// other data.
func FuzzUnmarshalPod(f *testing.F) {
	for i := range 6 {
		f.Add(marshal(f, newPod(i%2, i, i%3 == 0)))
	}
	for _, data := range unusual(f) {
		f.Add(data)
	}
	usual := marshal(f, newPod(1, 4, true))
	for i := 0; i < len(usual); i += 97 {
		f.Add(usual[:i])
		flipped := bytes.Clone(usual)
		flipped[i] ^= 4
		f.Add(flipped)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table := intern.New()
		for range 3 {
			compare(t, table, usual)
		}
		for range 3 {
			compare(t, table, data)
		}
		compare(t, table, usual)
	})
}
