package ownership

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// stripped are the fields that no manager owns.
var stripped = func() set {
	out, err := flatten(nil, fieldpath.NewSet(
		fieldpath.MakePathOrDie("apiVersion"),
		fieldpath.MakePathOrDie("kind"),
		fieldpath.MakePathOrDie("metadata"),
		fieldpath.MakePathOrDie("metadata", "name"),
		fieldpath.MakePathOrDie("metadata", "namespace"),
		fieldpath.MakePathOrDie("metadata", "creationTimestamp"),
		fieldpath.MakePathOrDie("metadata", "selfLink"),
		fieldpath.MakePathOrDie("metadata", "uid"),
		fieldpath.MakePathOrDie("metadata", "clusterName"),
		fieldpath.MakePathOrDie("metadata", "generation"),
		fieldpath.MakePathOrDie("metadata", "managedFields"),
		fieldpath.MakePathOrDie("metadata", "resourceVersion"),
	))
	if err != nil {
		panic(err)
	}
	return out
}()

// owner is an entry of managedFields.
type owner struct {
	metav1.ManagedFieldsEntry
	*known
}

// known is a set of fields with its encoded text.
type known struct {
	text  *metav1.FieldsV1
	paths set
}

// direct does the work of Update without apimachinery's FieldManager, which converts whole objects
// to compare them. If it returns false, it has changed nothing.
func (t *Tracker) direct(live, obj runtime.Object, manager string) bool {
	if t.plan == nil && t.root == nil || live.GetObjectKind().GroupVersionKind() != t.config.Kind || obj.GetObjectKind().GroupVersionKind() != t.config.Kind {
		return false
	}
	was, now := reflect.ValueOf(live), reflect.ValueOf(obj)
	if was.Type() != t.goType || now.Type() != t.goType || was.IsNil() || now.IsNil() {
		return false
	}
	old, err := meta.Accessor(live)
	if err != nil {
		return false
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	owners, err := t.owners(old, m)
	if err != nil {
		return false
	}
	if len(owners) == 0 && old.GetUID() != "" {
		m.SetManagedFields(nil) // an object without owners is not tracked
		return true
	}
	d := diffs.Get().(*diff)
	defer diffs.Put(d)
	defer d.reset()
	d.schema = t.schema
	if t.plan != nil {
		err = d.top(t.plan, was.Elem(), now.Elem(), t.mask)
	} else {
		err = d.topUntyped(*t.root, live, obj, t.mask)
	}
	if err != nil {
		return false
	}
	m.SetManagedFields(entriesOf(t.mergeAncient(d, t.settle(d, owners, manager))))
	return true
}

// settle makes manager the owner of the changed fields, and removes these and the deleted fields
// from all other owners.
func (t *Tracker) settle(d *diff, owners []owner, manager string) []owner {
	for i := range owners {
		o := &owners[i]
		left, less := o.paths, false
		if left.meets(d.changed) {
			d.work = subtract(d.work[:0], left, d.changed)
			left, less = d.work, true
		}
		if left.meets(d.removed) {
			d.spare = subtract(d.spare[:0], left, d.removed)
			left, less = d.spare, true
		}
		if less {
			o.known = t.learn(d, left)
		}
	}
	d.spare = subtract(d.spare[:0], d.changed, stripped)
	if len(d.spare) > 0 {
		owners = t.give(d, owners, manager)
	}
	return slices.DeleteFunc(owners, func(o owner) bool { return len(o.paths) == 0 })
}

// give adds d.spare to the fields of manager.
func (t *Tracker) give(d *diff, owners []owner, manager string) []owner {
	self := owner{ManagedFieldsEntry: metav1.ManagedFieldsEntry{
		Manager: cmp.Or(manager, "unknown"), Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: t.version, Subresource: t.config.Subresource,
		Time: &metav1.Time{Time: time.Now().UTC()},
	}}
	for i := range owners {
		if o := &owners[i]; o.same(&self) {
			d.work = unite(d.work[:0], o.paths, d.spare)
			o.known = t.learn(d, d.work)
			o.Time = self.Time
			return owners
		}
	}
	self.known = t.learn(d, d.spare)
	return append(owners, self)
}

// learn returns the known set for paths.
func (t *Tracker) learn(d *diff, paths set) *known {
	d.text = paths.appendJSON(d.text[:0])
	if k, ok := t.sets.get(d.text, maxSets); ok {
		return k
	}
	return t.remember(string(d.text), &known{t.shared.of(d.text), paths.copyOwn()})
}

// maxSets bounds the sets that a tracker remembers, in bytes and in each of two generations. A step
// takes about two hundred bytes, including what it refers to.
const maxSets, stepCost = 2 << 20, 200

func (t *Tracker) remember(raw string, k *known) *known {
	return t.sets.put(raw, k, len(raw)+stepCost*len(k.paths), maxSets)
}

// errForeign means that apimachinery must handle the entries.
var errForeign = errors.New("ownership: entries of another version or form")

// owners returns the entries that an update begins with: those of obj, if it may set them and they
// can be decoded, or else those of live. errForeign is the only error.
func (t *Tracker) owners(live, obj metav1.Object) ([]owner, error) {
	if entries := obj.GetManagedFields(); t.config.Subresource == "" {
		if entries != nil && len(entries) == 0 || len(entries) == 1 && reflect.ValueOf(entries[0]).IsZero() {
			return nil, nil
		}
		out, err := t.decode(entries)
		if errors.Is(err, errForeign) || err == nil && len(out) > 0 {
			return out, err
		}
	}
	out, err := t.decode(live.GetManagedFields())
	if err != nil && !errors.Is(err, errForeign) {
		return nil, nil
	}
	return out, err
}

var errMalformed = errors.New("ownership: entry that cannot be read")

// decode decodes entries. Of several with the same name the last one wins.
func (t *Tracker) decode(entries []metav1.ManagedFieldsEntry) ([]owner, error) {
	out := make([]owner, 0, len(entries)+1)
	for i := range entries {
		o := owner{ManagedFieldsEntry: entries[i]}
		switch {
		case o.Operation != metav1.ManagedFieldsOperationApply && o.Operation != metav1.ManagedFieldsOperationUpdate,
			o.APIVersion == "", o.FieldsType != "FieldsV1":
			return nil, errMalformed
		case o.APIVersion != t.version, !utf8.ValidString(o.Manager), !utf8.ValidString(o.Subresource):
			return nil, errForeign
		}
		var err error
		if o.known, err = t.read(o.FieldsV1); err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(out, func(p owner) bool { return p.same(&o) }); at >= 0 {
			out[at] = o
		} else {
			out = append(out, o)
		}
	}
	return out, nil
}

// same reports whether two entries are of the same owner.
func (o *owner) same(p *owner) bool {
	return o.Manager == p.Manager && o.Operation == p.Operation && o.Subresource == p.Subresource &&
		(o.APIVersion == p.APIVersion || o.Operation == metav1.ManagedFieldsOperationApply)
}

// read parses a text, once for all objects that have it.
func (t *Tracker) read(f *metav1.FieldsV1) (*known, error) {
	raw := []byte("{}")
	if f != nil {
		raw = f.GetRawBytes()
	}
	if k, ok := t.sets.get(raw, maxSets); ok {
		return k, nil
	}
	var s fieldpath.Set
	if err := s.FromJSON(metav1.NewFieldsV1(string(raw)).GetRawReader()); err != nil {
		return nil, errMalformed
	}
	paths := &s
	// A field that was atomic when the text was written may be granular now, or the reverse.
	now, err := typed.ReconcileFieldSetWithSchema(paths, t.nothing)
	if err != nil {
		return nil, errForeign
	}
	if now != nil {
		paths = now
	}
	flat, err := flatten(nil, paths)
	if err != nil {
		return nil, errForeign
	}
	return t.remember(string(raw), &known{t.shared.of(flat.appendJSON(nil)), flat}), nil
}

// entriesOf returns owners in the order of managedFields: by operation, time and name.
func entriesOf(owners []owner) []metav1.ManagedFieldsEntry {
	if len(owners) == 0 {
		return nil
	}
	out := make([]metav1.ManagedFieldsEntry, len(owners))
	for i := range owners {
		out[i] = owners[i].ManagedFieldsEntry
		out[i].FieldsType, out[i].FieldsV1 = "FieldsV1", owners[i].text
	}
	// There are rarely more than three, and most are in order.
	for i := range out {
		for j := i; j > 0 && compareEntries(&out[j], &out[j-1]) < 0; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

func compareEntries(a, b *metav1.ManagedFieldsEntry) int {
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(seconds(a.Time), seconds(b.Time)),
		cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}
