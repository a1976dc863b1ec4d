package ownership

import (
	"reflect"
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// planKind says how values of a type are compared.
type planKind uint8

const (
	// foreign leaves a value to structured-merge-diff.
	foreign planKind = iota
	// leaf is owned as a whole: scalars, atomic lists and maps.
	leaf
	fields  // a struct
	entries // a map
	items   // a list whose items have keys
	values  // a list without duplicates
)

// plan says how to compare values of one Go type under one schema. It is made once. The plan of a
// recursive type refers to itself.
type plan struct {
	how    planKind
	fields []field
	// elem is the plan of the elements of a list or map.
	elem slot
	// keys holds the keys of items, by name.
	keys []itemKey
	// null reports whether a leaf counts as null; nil means never.
	null func(reflect.Value) bool
	// ref is the schema; wrapped is the schema of a map that holds the value as x.
	ref, wrapped schema.TypeRef
}

// slot is the place of a value, which may be behind a pointer.
type slot struct {
	*plan
	// declared is the type including the pointer.
	declared reflect.Type
	pointer  bool
}

// field is a field of a struct by its name in JSON.
type field struct {
	slot
	elem
	index     []int
	omitEmpty bool
	omitZero  func(reflect.Value) bool
	// never is set for a field that is not compared.
	never bool
}

// itemKey is a field that identifies an item of a list.
type itemKey struct {
	field *field
	name  string
	kind  scalarKind
	// missing is the key of an item without the field, if the schema has a default.
	missing *part
}

// compiler makes plans of the types of one schema.
type compiler struct {
	schema *schema.Schema
	made   map[planKey]*plan
	// shapes holds the plans of items that are leaves.
	shapes map[planKey]*plan
}

type planKey struct {
	t        reflect.Type
	name     string
	override schema.ElementRelationship
	nullable bool
}

// root returns the plan of an object, or nil if its type is not a struct with ObjectMeta.
func (c *compiler) root(t reflect.Type, ref schema.TypeRef) *plan {
	if t.Kind() != reflect.Struct {
		return nil
	}
	p := *c.slot(t, ref, false).plan
	if p.how != fields {
		return nil
	}
	p.fields = slices.Clone(p.fields)
	for i := range p.fields {
		f := &p.fields[i]
		if f.name != "metadata" || f.declared != reflect.TypeFor[metav1.ObjectMeta]() || f.how != fields {
			continue
		}
		own := *f.plan
		own.fields = slices.Clone(own.fields)
		for j := range own.fields {
			if own.fields[j].name == "managedFields" {
				own.fields[j].never = true
			}
		}
		f.plan = &own
		return &p
	}
	return nil
}

// slot returns the plan of a value of the declared type. nullable is set if the value may be null
// there.
func (c *compiler) slot(declared reflect.Type, ref schema.TypeRef, nullable bool) slot {
	s := slot{declared: declared}
	t := declared
	if t.Kind() == reflect.Pointer {
		s.pointer, t = true, t.Elem()
	}
	key := planKey{t: t, nullable: nullable}
	if ref.NamedType != nil {
		key.name = *ref.NamedType
		if ref.ElementRelationship != nil {
			key.override = *ref.ElementRelationship
		}
		if p := c.made[key]; p != nil {
			s.plan = p
			return s
		}
	}
	s.plan = &plan{ref: ref, wrapped: schema.TypeRef{Inlined: schema.Atom{Map: &schema.Map{
		Fields: []schema.StructField{{Name: wrap, Type: ref}},
	}}}}
	if ref.NamedType != nil {
		c.made[key] = s.plan
	}
	if atom, ok := c.schema.Resolve(ref); ok {
		c.choose(s.plan, t, atom, nullable)
	}
	return s
}

// choose returns how values of t are compared under atom. Types that it does not support stay
// foreign.
func (c *compiler) choose(p *plan, t reflect.Type, atom schema.Atom, nullable bool) {
	several := 0
	for _, has := range []bool{atom.Scalar != nil, atom.List != nil, atom.Map != nil} {
		if has {
			several++
		}
	}
	known := knownScalar(t)
	if known == nil && value.TypeReflectEntryOf(t).CanConvertToUnstructured() {
		return
	}
	// If a schema allows several kinds, the other side decides what null means.
	if several != 1 && (nullable || known != nil && known.null != nil) {
		return
	}
	switch kind := t.Kind(); {
	case known != nil:
		if atom.Scalar != nil && slices.Contains(known.schemas, *atom.Scalar) {
			p.how, p.null = leaf, known.null
		}
	case atom.Scalar != nil && scalarFits(t, *atom.Scalar):
		p.how = leaf
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && atom.List != nil:
		c.list(p, t, atom.List)
	case kind == reflect.Map && t.Key().Kind() == reflect.String && atom.Map != nil:
		if atom.Map.ElementRelationship == schema.Atomic {
			p.how = leaf
		} else if len(atom.Map.Fields) == 0 {
			p.how = entries
			p.elem = c.slot(t.Elem(), atom.Map.ElementType, nilable(t.Elem()))
		}
	case kind == reflect.Struct && atom.Map != nil:
		if atom.Map.ElementRelationship == schema.Atomic {
			p.how = leaf
		} else {
			c.structure(p, t, atom.Map)
		}
	}
}

func (c *compiler) list(p *plan, t reflect.Type, list *schema.List) {
	switch {
	case list.ElementRelationship == schema.Atomic:
		p.how = leaf
	case list.ElementRelationship != schema.Associative:
	case len(list.Keys) == 0:
		if e := c.slot(t.Elem(), list.ElementType, false); e.how == leaf && !e.pointer && partKind(t.Elem()) != isNull {
			p.how, p.elem = values, e
		}
	default:
		p.elem = c.slot(t.Elem(), list.ElementType, nilable(t.Elem()))
		atom, _ := c.schema.Resolve(list.ElementType)
		if atom.Map == nil {
			return
		}
		shape := c.shape(&p.elem, atom.Map)
		if shape.how != fields {
			return
		}
		names := slices.Sorted(slices.Values(list.Keys))
		for _, name := range names {
			at := slices.IndexFunc(shape.fields, func(f field) bool { return f.name == name })
			if at < 0 {
				return
			}
			k := itemKey{field: &shape.fields[at], name: name}
			f, _ := atom.Map.FindField(name)
			if f.Default != nil {
				d, err := partOf(value.NewValueInterface(f.Default))
				if err != nil {
					return
				}
				d.name = name
				k.missing = &d
			}
			inner := k.field.declared
			if k.field.pointer {
				inner = inner.Elem()
			}
			if k.kind = partKind(inner); k.kind == isNull || k.field.how != leaf {
				return
			}
			p.keys = append(p.keys, k)
		}
		p.how = items
	}
}

// shape returns a plan of the fields that identify the items in s, also for items that are owned as
// a whole, such as owner references.
func (c *compiler) shape(s *slot, m *schema.Map) *plan {
	t := s.declared
	if s.pointer {
		t = t.Elem()
	}
	if s.how != leaf || t.Kind() != reflect.Struct {
		return s.plan
	}
	key := planKey{t: t}
	if s.ref.NamedType != nil {
		key.name = *s.ref.NamedType
		if p := c.shapes[key]; p != nil {
			return p
		}
	}
	p := &plan{}
	if key.name != "" {
		c.shapes[key] = p // first, for a type that holds such a list of itself
	}
	c.structure(p, t, m)
	return p
}

// structure returns the plan of a struct by its JSON fields. A struct in which
// structured-merge-diff sees other fields stays foreign.
func (c *compiler) structure(p *plan, t reflect.Type, m *schema.Map) {
	found, ok := c.flat(nil, t, m, nil)
	if !ok {
		return
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].name < found[j].name })
	seen := value.TypeReflectEntryOf(t).OrderedFields()
	if !slices.EqualFunc(found, seen, func(f field, o *value.FieldCacheEntry) bool { return f.name == o.JsonName }) {
		return
	}
	p.how, p.fields = fields, found
}

func (c *compiler) flat(out []field, t reflect.Type, m *schema.Map, index []int) ([]field, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, rest, _ := strings.Cut(tag, ",")
		options := strings.Split(rest, ",")
		at := append(slices.Clone(index), i)
		if slices.Contains(options, "inline") {
			if f.Type.Kind() != reflect.Struct {
				return nil, false
			}
			var ok bool
			if out, ok = c.flat(out, f.Type, m, at); !ok {
				return nil, false
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		if !f.IsExported() {
			return nil, false
		}
		of := field{elem: named(name), index: at, omitEmpty: slices.Contains(options, "omitempty")}
		if slices.Contains(options, "omitzero") {
			of.omitZero = value.OmitZeroFunc(f.Type)
		}
		ref := m.ElementType
		if known, ok := m.FindField(name); ok {
			ref = known.Type
		}
		of.slot = c.slot(f.Type, ref, nilable(f.Type) && !of.omitEmpty)
		out = append(out, of)
	}
	return out, true
}

func nilable(t reflect.Type) bool {
	return slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface}, t.Kind())
}
