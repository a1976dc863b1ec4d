package mergeschema

import (
	"hash/maphash"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// sharing lets equal lists and maps be the same one. Large CustomResourceDefinitions repeat some schemas, such as that
// of a container, many times. Types below those that are shared are shared already, so that equal types of
// elements have equal pointers.
type sharing struct {
	names         map[string]*string
	scalars       map[schema.Scalar]*schema.Scalar
	relationships map[schema.ElementRelationship]*schema.ElementRelationship
	lists         map[listContent]*schema.List
	maps          map[uint64][]*schema.Map // by the hash of the names and types of the fields
	seed          maphash.Seed
}

type listContent struct {
	element      schema.TypeRef
	relationship schema.ElementRelationship
	keys         string
}

func newSharing() *sharing {
	return &sharing{
		names: map[string]*string{}, scalars: map[schema.Scalar]*schema.Scalar{},
		relationships: map[schema.ElementRelationship]*schema.ElementRelationship{},
		lists:         map[listContent]*schema.List{}, maps: map[uint64][]*schema.Map{}, seed: maphash.MakeSeed(),
	}
}

func (sh *sharing) list(l *schema.List) *schema.List {
	content := listContent{l.ElementType, l.ElementRelationship, strings.Join(l.Keys, "\x00")}
	if same := sh.lists[content]; same != nil {
		return same
	}
	sh.lists[content] = l
	return l
}

func (sh *sharing) object(m *schema.Map) *schema.Map {
	var h maphash.Hash
	h.SetSeed(sh.seed)
	for _, f := range m.Fields {
		maphash.WriteComparable(&h, f.Name)
		maphash.WriteComparable(&h, f.Type)
	}
	maphash.WriteComparable(&h, m.ElementType)
	sum := h.Sum64()
	for _, other := range sh.maps[sum] {
		if m.ElementRelationship == other.ElementRelationship && m.ElementType == other.ElementType && slices.EqualFunc(m.Fields, other.Fields, sameField) {
			return other
		}
	}
	m.Fields = slices.Clip(m.Fields)
	sh.maps[sum] = append(sh.maps[sum], m)
	return m
}

func sameField(a, b schema.StructField) bool {
	return a.Name == b.Name && a.Type == b.Type && reflect.DeepEqual(a.Default, b.Default)
}

func (sh *sharing) scalar(s schema.Scalar) schema.Atom {
	return schema.Atom{Scalar: shared(sh.scalars, s)}
}

func (sh *sharing) reference(name string) schema.TypeRef {
	return schema.TypeRef{NamedType: shared(sh.names, name)}
}

func (sh *sharing) relationship(r schema.ElementRelationship) *schema.ElementRelationship {
	return shared(sh.relationships, r)
}

// shared returns the pointer to v in all.
func shared[T comparable](all map[T]*T, v T) *T {
	p := all[v]
	if p == nil {
		p = &v
		all[v] = p
	}
	return p
}
