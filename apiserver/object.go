package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	"github.com/planekit/planekit/apiserver/internal/envelope"
	"github.com/planekit/planekit/apiserver/internal/share"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// object holds what is kept of a stored record beside its bytes: the decoded
// object and its encodings, each made when it is first needed. All of it is
// shared and must not be changed.
type object struct {
	runtime.Object
	// hidden is why most clients do not see the object; nil if they do.
	hidden *hidden
	// parts are where the record's bytes have what the object's protobuf message
	// is made of; zero where they cannot serve.
	parts envelope.Parts
	json  atomic.Pointer[[]byte]
	proto atomic.Pointer[[]byte]
	// partial is the object's metadata alone, as JSON.
	partial atomic.Pointer[[]byte]
	// cells are the steady ones of its row, as JSON, each with a comma behind it; in
	// place of the others is a byte of zero.
	cells atomic.Pointer[[]byte]
}

// item is a record with its object.
type item = cache.Item[*object]

// objects are the cached objects of a kind.
type objects struct {
	*cache.Cache[*object]
	converter *versionConverter // nil without a Converter
}

// put announces an object which has been stored at revision.
func (o objects) put(key storage.Key, revision storage.Revision, obj runtime.Object, h *hidden) {
	o.Wrote(key, revision, &object{Object: obj, hidden: h})
	if o.converter != nil && o.converter.kind.StoredAs != nil {
		o.converter.wrote(key, revision, &object{Object: obj, hidden: h})
	}
}

func (k *servedKind) addCache(feed *cache.Feed) error {
	fields := map[string]func(*object) string{}
	for name, of := range k.indexed() {
		fields[name] = func(o *object) string { return fieldOf(of, o.Object) }
	}
	c, err := cache.New(cache.Config[*object]{Feed: feed, Prefix: storage.Key(k.root), Decode: k.decodeItem, Fields: fields})
	k.cache = objects{c, k.converter}
	return err
}

// indexed returns the fields by which cached objects are indexed. Unconverted objects have none.
func (k *servedKind) indexed() map[string]func(runtime.Object) string {
	if k.converter != nil {
		return nil
	}
	return k.Fields
}

// fieldOf returns the key of obj in the index of a field, empty if of panics. A request
// that selects by the field asks again, and gets the panic.
func fieldOf(of func(runtime.Object) string, obj runtime.Object) (value string) {
	defer func() { _ = recover() }()
	return of(obj)
}

// decodeItem decodes a record, unless known is its object. The resource's functions see
// here what any program has stored: if one panics, that object cannot be decoded, and
// all other objects are served.
func (k *servedKind) decodeItem(record storage.Record, known *object) (o *object, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			o, err = nil, fmt.Errorf("stored object %s cannot be decoded: panic: %v", record.Key, cause)
		}
	}()
	if known != nil {
		o := &object{Object: known.Object, hidden: known.hidden}
		if k.sentAsStored() {
			o.parts, _ = envelope.FindParts(record.Value)
		}
		return o, nil
	}
	h, value, err := cutHidden(record.Value)
	if err != nil {
		return nil, fmt.Errorf("stored object %s cannot be decoded: %w", record.Key, err)
	}
	if k.converter != nil {
		if u, ok := k.converter.decode(value); ok {
			return &object{Object: u, hidden: h}, nil
		}
	}
	obj, err := k.decodeServed(value)
	if err != nil {
		return nil, fmt.Errorf("stored object %s cannot be %w", record.Key, err)
	}
	o = &object{Object: obj, hidden: h}
	if parts, ok := envelope.FindParts(record.Value); ok && k.sentAsStored() {
		// Not so where defaults have come up since it was written.
		if data, err := k.encode(context.Background(), obj); err == nil && bytes.Equal(data, record.Value) {
			o.parts = parts
		}
	}
	k.settle(obj, record.Revision)
	return o, nil
}

// decodeServed returns the object in value in the form in which it is served.
func (k *servedKind) decodeServed(value []byte) (runtime.Object, error) {
	obj, err := k.decodeStored(value)
	if err != nil {
		return nil, fmt.Errorf("decoded: %w", err)
	}
	if k.stored.complete != nil {
		k.stored.complete(obj)
	}
	if obj, err = k.fromStored(obj); err != nil {
		return nil, fmt.Errorf("converted: %w", err)
	}
	if k.Strategy.Default != nil {
		k.Strategy.Default(obj)
	}
	return obj, nil
}

// sentAsStored reports whether what is stored of an object may be all that
// clients see of it but the resourceVersion.
func (k *servedKind) sentAsStored() bool { return k.stored.From == nil && k.Decorate == nil }

// item returns the object of a record, from the cache if it is there. With a Converter, it may be
// unconverted.
func (k *servedKind) item(record storage.Record) (*item, error) {
	if have, ok := k.cache.Peek(record.Key); ok && have.Revision == record.Revision {
		return have, have.Err
	}
	o, err := k.decodeItem(record, nil)
	return &item{Record: record, Object: o, Err: err}, err
}

// asItem is an object that is in no record (any more).
func asItem(obj runtime.Object) *item { return asItemWith(obj, nil) }

// asItemWith is the same for an object that is, or was, hidden.
func asItemWith(obj runtime.Object, h *hidden) *item {
	return &item{Object: &object{Object: obj, hidden: h}}
}

// jsonOf returns the object as JSON, without the newline that ends a document.
func (k *servedKind) jsonOf(i *item) ([]byte, error) {
	return k.encodeOnce(i, &i.Object.json, func() runtime.Object { return shown(i.Object.Object, i.Object.hidden) })
}

// partialOf returns the object's metadata as JSON.
func (k *servedKind) partialOf(i *item) ([]byte, error) {
	return k.encodeOnce(i, &i.Object.partial, func() runtime.Object { return shown(partial(i.Object.Object), i.Object.hidden) })
}

// An object is kept as JSON up to this multiple of what is stored, and these bytes more: a definition may
// have given thousands of small objects a large default.
const keptGrowth, keptMore = 8, 4 << 10

func (k *servedKind) encodeOnce(i *item, at *atomic.Pointer[[]byte], obj func() runtime.Object) ([]byte, error) {
	if have := at.Load(); have != nil {
		return *have, nil
	}
	data, err := k.codec.Encode(wire.JSON, obj())
	if err != nil {
		return nil, err
	}
	data = bytes.TrimRight(data, "\n")
	if k.Packing != nil || len(i.Value) > 0 && len(data) > keptGrowth*len(i.Value)+keptMore {
		return data, nil
	}
	data = bytes.Clone(data) // without the encoder's spare room
	at.Store(&data)
	return data, nil
}

// marshaled makes sure that appendMessage has what it needs.
func (k *servedKind) marshaled(i *item) error {
	o := i.Object
	if o.parts.Usable() || o.proto.Load() != nil {
		return nil
	}
	message, ok := o.Object.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return fmt.Errorf("%T is no protobuf message", o.Object)
	}
	data, err := message.Marshal()
	if err == nil {
		o.proto.Store(&data)
	}
	return err
}

// messageSize is the length of what appendMessage appends.
func messageSize(i *item) int {
	if i.Object.parts.Usable() {
		return i.Object.parts.Size(i.Revision)
	}
	return len(*i.Object.proto.Load())
}

// appendMessage appends the object as a protobuf message. marshaled must have
// been called.
func appendMessage(to []byte, i *item) []byte {
	if i.Object.parts.Usable() {
		return i.Object.parts.AppendTo(to, i.Value, i.Revision)
	}
	return append(to, *i.Object.proto.Load()...)
}

// sharedParts bounds the different labels, annotations and owners of a kind that are
// remembered.
const sharedParts = 4096

// metaParts has what the metadata of a kind's objects have in common.
type metaParts struct {
	names  *share.Table[map[string]string]
	owners *share.Table[[]metav1.OwnerReference]
}

func newMetaParts() metaParts {
	return metaParts{
		names:  share.NewTable[map[string]string](sharedParts),
		owners: share.NewTable[[]metav1.OwnerReference](sharedParts),
	}
}

// share replaces parts of obj, which must still be the caller's alone, by equal parts of
// cached objects.
func (k *servedKind) share(obj runtime.Object) {
	m := accessor(obj)
	labels, annotations, owners := m.GetLabels(), m.GetAnnotations(), m.GetOwnerReferences()
	share.Map(k.metas.names, &labels)
	share.Map(k.metas.names, &annotations)
	share.List(k.metas.owners, &owners)
	m.SetLabels(labels)
	m.SetAnnotations(annotations)
	m.SetOwnerReferences(owners)
	k.owners.Share(m)
	if k.Share != nil {
		k.Share(obj)
	}
	if k.Packing != nil {
		k.Packing.Pack(obj)
	}
}
