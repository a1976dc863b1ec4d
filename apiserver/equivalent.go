package apiserver

import (
	"context"
	"fmt"
	"slices"

	"github.com/planekit/planekit/admission"
	"k8s.io/apimachinery/pkg/runtime"
)

// equivalents are the other kinds whose objects are those of a kind, in the form that admission names. The slices
// have the same order.
type equivalents struct {
	types []admission.Equivalent
	kinds []*servedKind
}

// relate lets kinds know their equivalents among all, the kinds that are stored in the same place.
func relate(all []*servedKind) {
	for _, k := range all {
		k.equivalents = map[string]equivalents{"": k.equivalentsIn(all, nil)}
		for i := range k.subresources {
			sub := &k.subresources[i]
			k.equivalents[sub.name] = k.equivalentsIn(all, sub)
		}
	}
}

// equivalentsIn returns the other kinds of all that have the subresource too; nil is the object itself. Bodies of a
// subresource's own type cannot be converted, so that they must be of one kind.
func (k *servedKind) equivalentsIn(all []*servedKind, sub *subresource) (found equivalents) {
	for _, other := range all {
		if other == k {
			continue
		}
		kind := other.gvk
		if sub != nil {
			same := other.subresource(sub.name)
			if same == nil {
				continue
			}
			kind = other.subKind(same)
			if (sub.newBody != nil || same.newBody != nil) && kind != k.subKind(sub) {
				continue
			}
		}
		found.kinds = append(found.kinds, other)
		found.types = append(found.types, admission.Equivalent{
			Resource: admission.GroupVersionResource(other.gvr), Kind: admission.GroupVersionKind(kind),
		})
	}
	return found
}

// relateStored relates the kinds of t that are stored in the same place.
func (t *catalog) relateStored() {
	places := map[string][]*servedKind{}
	for _, g := range t.groups {
		for _, version := range g.Versions {
			for _, k := range t.kindsOf(g.Name, version) {
				if k.Answer == nil {
					places[k.root] = append(places[k.root], k)
				}
			}
		}
	}
	for _, all := range places {
		if len(all) > 1 {
			relate(all)
		}
	}
}

// conversions implements [admission.Equivalents] for one request.
type conversions struct {
	equivalents
	kind *servedKind
	old  runtime.Object
	// settled is set once no plugin changes the object any more.
	settled bool
	// kept has the results for objects that do not change.
	kept map[converted]any
}

// converted identifies a conversion.
type converted struct {
	object any // a pointer
	to     admission.GroupVersionResource
}

// conversions returns what admission can convert the objects of the request to; nil if there is nothing.
func (q *request) conversions(old runtime.Object) admission.Equivalents {
	name := ""
	if q.sub != nil {
		name = q.sub.name
	}
	e := q.kind.equivalents[name]
	if len(e.kinds) == 0 {
		return nil
	}
	return &conversions{equivalents: e, kind: q.kind, old: old}
}

// All implements [admission.Equivalents].
func (c *conversions) All() []admission.Equivalent { return c.types }

// Convert implements [admission.Equivalents].
func (c *conversions) Convert(ctx context.Context, object any, from, to admission.Equivalent) (any, error) {
	if from.Kind == to.Kind {
		return object, nil
	}
	key := converted{object, to.Resource}
	if out, ok := c.kept[key]; ok {
		return out, nil
	}
	obj, ok := object.(runtime.Object)
	source, target := c.kindOf(from), c.kindOf(to)
	if !ok || source == nil || target == nil {
		return nil, fmt.Errorf("no conversion of a %T from %v to %v", object, from.Kind, to.Kind)
	}
	out, err := source.convertTo(ctx, obj, target)
	if err != nil {
		return nil, err
	}
	if obj == c.old || c.settled {
		if c.kept == nil {
			c.kept = map[converted]any{}
		}
		c.kept[key] = out
	}
	return out, nil
}

func (c *conversions) kindOf(e admission.Equivalent) *servedKind {
	if e.Resource == admission.GroupVersionResource(c.kind.gvr) {
		return c.kind
	}
	if i := slices.Index(c.types, e); i >= 0 {
		return c.kinds[i]
	}
	return nil
}

// convertTo returns obj, of kind k, as an object of another kind that is stored in the same place.
func (k *servedKind) convertTo(ctx context.Context, obj runtime.Object, to *servedKind) (runtime.Object, error) {
	switch {
	case k.converter != nil:
		out, err := k.converter.convert(ctx, []runtime.Object{obj}, to.Version)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	case k.Relabel != nil:
		return k.Relabel(obj, to.Version)
	}
	stored, err := k.toStored(ctx, obj)
	if err != nil {
		return nil, err
	}
	return to.fromStored(stored)
}
