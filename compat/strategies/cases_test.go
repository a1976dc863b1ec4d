package strategies

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/planekit/planekit/compat/pair"
)

// A target is where objects of a kind are written: a collection by POST, an object or its subresource by PUT.
type target struct {
	method, path     string
	apiVersion, kind string
	schema           *schema
	// body is the object to begin with, in YAML; that of an update is what each server has.
	body, name string
}

// A trial is a request made of a target's object.
type trial struct {
	target  target
	changes []change
	// stored is tried without dry run: it is created, read, updated to the object without the changes and deleted.
	stored bool
}

func (t trial) String() string {
	var parts []string
	for _, c := range t.changes {
		value := "removed"
		if !c.remove {
			data, err := json.Marshal(c.value)
			if err != nil {
				panic(err)
			}
			value = fmt.Sprintf("= %.60s", data)
		}
		parts = append(parts, c.field.String()+" "+value)
	}
	return strings.Join(parts, ", ")
}

// object returns the target's object with the changes made.
func (t trial) object(m model, base map[string]any) map[string]any {
	data, err := json.Marshal(base)
	if err != nil {
		panic(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		panic(err)
	}
	for _, c := range t.changes {
		m.apply(t.target.schema, object, c)
	}
	return object
}

// base returns the object that a create begins with.
func (t target) base() map[string]any {
	object := pair.Content(t.body, t.apiVersion, t.kind, t.name)
	metadata, _ := object["metadata"].(map[string]any)
	delete(metadata, "labels")
	if strings.HasSuffix(t.kind, "Review") {
		delete(metadata, "name") // it must have none
	}
	return object
}

// names are of objects that must be called so, and their names beside those that exist.
var names = map[string]string{"v1.walk.example.com": "v1.walk.example.com", "nones.none.example.com": "nones.none.example.com", "192.0.2.9": "192.0.2.10", "walk-2": "walk-new-2"}

// targets returns where both servers take objects.
func targets(m model, theirs, ours []pair.Operation) (all []target) {
	for _, o := range theirs {
		has := func(other pair.Operation) bool { return other.Method == o.Method && other.Path == o.Path }
		s := m.kind(o.APIVersion, o.Kind)
		if o.Method != "POST" && o.Method != "PUT" || s == nil || !slices.ContainsFunc(ours, has) {
			continue
		}
		full := strings.Replace(o.Path, "{namespace}", pair.Namespace, 1)
		t := target{method: o.Method, path: full, apiVersion: o.APIVersion, kind: o.Kind, schema: s}
		collection, rest, _ := strings.Cut(full, "/{name}")
		i := slices.IndexFunc(pair.Objects, func(o pair.Object) bool { return o.Path == collection })
		question, isQuestion := pair.Questions["/"+path.Base(full)]
		switch {
		case isQuestion:
			t.path, t.body, t.name = strings.Replace(full, "{name}", "walk", 1), question, "walk"
		case i < 0 || strings.HasSuffix(full, "/proxy") || strings.Contains(rest, "{"):
			continue
		case o.Method == "PUT":
			t.path, t.name = collection+"/"+pair.Objects[i].Label()+rest, pair.Objects[i].Label()
		default:
			t.body, t.name = pair.Objects[i].Body, "walk-new"
			if name := names[pair.Objects[i].Label()]; name != "" {
				t.name = name
			}
		}
		all = append(all, t)
	}
	return all
}

// trials returns what a target is tried with, at most limit of each sort unless that is zero.
func (t target) trials(m model, base map[string]any, seed uint64, limit int) (all []trial) {
	h := fnv.New64a()
	fmt.Fprint(h, t.method, t.path)
	random := rand.New(rand.NewPCG(seed, h.Sum64()))
	add := func(sort []trial) {
		random.Shuffle(len(sort), func(i, j int) { sort[i], sort[j] = sort[j], sort[i] })
		if limit > 0 {
			sort = sort[:min(len(sort), limit)]
		}
		all = append(all, sort...)
	}
	one := func(f field, value any) trial { return trial{target: t, changes: []change{{field: f, value: value}}} }
	fields := m.fields(t.schema, nil, nil)
	var right, wrong, removed, pairs, old, stored []trial
	for _, f := range fields {
		for _, value := range m.plausible(f) {
			right = append(right, one(f, value))
		}
		for i, value := range m.odd(f) {
			if t.method == "POST" || i < 3 {
				wrong = append(wrong, one(f, value))
			}
		}
		if has(base, f.path) {
			removed = append(removed, trial{target: t, changes: []change{{field: f, remove: true}}})
		}
	}
	some := func() change {
		f := fields[random.IntN(len(fields))]
		values := m.plausible(f)
		if random.IntN(3) == 0 {
			values = m.odd(f)
		}
		return change{field: f, value: values[random.IntN(len(values))]}
	}
	for range len(fields) / 2 {
		pairs = append(pairs, trial{target: t, changes: []change{some(), some()}})
	}
	for _, f := range fields {
		table := map[string]map[string][]string{"annotations": annotations, "labels": labels}[f.last()]
		if f.AdditionalProperties == nil || len(f.path) < 2 || f.path[len(f.path)-2] != "metadata" {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(table)) {
			for _, value := range table[key] {
				old = append(old, one(field{append(slices.Clone(f.path), key), m.resolve(f.AdditionalProperties)}, value))
			}
		}
	}
	add(right)
	add(wrong)
	add(removed)
	add(pairs)
	add(old)
	if t.method == "POST" && t.storable() {
		for _, c := range slices.Concat(right, old) {
			name := c.changes[0].field.String()
			if !strings.HasPrefix(name, "metadata") || strings.HasPrefix(name, "metadata.annotations") || strings.HasPrefix(name, "metadata.labels") {
				c.stored = true
				stored = append(stored, c)
			}
		}
		add(stored[:min(len(stored), 2*len(fields))])
	}
	return all
}

// storable reports whether objects of the target can be created and deleted one after the other. A controller of kube-apiserver
// changes flow schemas.
func (t target) storable() bool {
	return strings.HasPrefix(t.name, "walk-new") && t.kind != "Namespace" && t.kind != "FlowSchema"
}
