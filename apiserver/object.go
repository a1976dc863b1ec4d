package apiserver

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"k8s.io/apimachinery/pkg/runtime"
)

// object is what is kept of a stored record beside its bytes: the decoded
// object and what is sent of it, each made when it is first wanted. All of it is
// shared and must not be changed.
type object struct {
	runtime.Object
	// initializers are what the object waits for before it is there for everybody;
	// nil is nothing.
	initializers *initializers
	// parts are where the record's bytes have what the object's protobuf message
	// is made of; zero where they cannot serve.
	parts parts
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
type objects struct{ *cache.Cache[*object] }

// put announces an object which has been stored at revision.
func (o objects) put(key storage.Key, revision storage.Revision, obj runtime.Object, state *initializers) {
	o.Wrote(key, revision, &object{Object: obj, initializers: state})
}

func (k *kind) addCache(feed *cache.Feed) error {
	fields := map[string]func(*object) string{}
	for name, of := range k.Fields {
		fields[name] = func(o *object) string { return fieldOf(of, o.Object) }
	}
	c, err := cache.New(cache.Config[*object]{Feed: feed, Prefix: storage.Key(k.root), Decode: k.decodeItem, Fields: fields})
	k.cache = objects{c}
	return err
}

// fieldOf is what the index has for a field: nothing where it cannot be told. Who
// selects by the field asks again, and gets the panic.
func fieldOf(of func(runtime.Object) string, obj runtime.Object) (value string) {
	defer func() { _ = recover() }()
	return of(obj)
}

// decodeItem decodes a record, unless known is its object. The resource's own
// functions see here what anybody has stored: where one panics, that object
// cannot be decoded, and the others are served.
func (k *kind) decodeItem(record storage.Record, known *object) (o *object, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			o, err = nil, fmt.Errorf("stored object %s cannot be decoded: panic: %v", record.Key, cause)
		}
	}()
	if known != nil {
		o := &object{Object: known.Object, initializers: known.initializers}
		if k.sentAsStored() {
			o.parts, _ = findParts(record.Value)
		}
		return o, nil
	}
	state, value, err := cutInitializers(record.Value)
	if err != nil {
		return nil, fmt.Errorf("stored object %s cannot be decoded: %w", record.Key, err)
	}
	obj, err := k.codec.decodeStored(value, k.storedKind(), k.stored.New())
	if err != nil {
		return nil, fmt.Errorf("stored object %s cannot be decoded: %w", record.Key, err)
	}
	if k.stored.From != nil {
		obj = k.stored.From(obj)
	}
	if k.Strategy.Default != nil {
		k.Strategy.Default(obj)
	}
	o = &object{Object: obj, initializers: state}
	if parts, ok := findParts(record.Value); ok && k.sentAsStored() {
		// Not so where defaults have come up since it was written.
		if data, err := k.encode(obj); err == nil && bytes.Equal(data, record.Value) {
			o.parts = parts
		}
	}
	k.settle(obj, record.Revision)
	return o, nil
}

// sentAsStored reports whether what is stored of an object may be all that
// clients see of it but the resourceVersion.
func (k *kind) sentAsStored() bool { return k.stored.From == nil && k.Decorate == nil }

// item returns the object of a record, from the cache if it is there.
func (k *kind) item(record storage.Record) (*item, error) {
	if have, ok := k.cache.Peek(record.Key); ok && have.Revision == record.Revision {
		return have, have.Err
	}
	o, err := k.decodeItem(record, nil)
	return &item{Record: record, Object: o, Err: err}, err
}

// asItem is an object that is in no record (any more).
func asItem(obj runtime.Object) *item { return asItemWith(obj, nil) }

// asItemWith is one that waits, or waited, for state.
func asItemWith(obj runtime.Object, state *initializers) *item {
	return &item{Object: &object{Object: obj, initializers: state}}
}

// jsonOf returns the object as JSON, without the newline that ends a document.
func (k *kind) jsonOf(i *item) ([]byte, error) {
	return k.encodeOnce(&i.Object.json, func() runtime.Object { return shown(i.Object.Object, i.Object.initializers) })
}

// partialOf returns the object's metadata as JSON.
func (k *kind) partialOf(i *item) ([]byte, error) {
	return k.encodeOnce(&i.Object.partial, func() runtime.Object { return shown(partial(i.Object.Object), i.Object.initializers) })
}

func (k *kind) encodeOnce(at *atomic.Pointer[[]byte], obj func() runtime.Object) ([]byte, error) {
	if have := at.Load(); have != nil {
		return *have, nil
	}
	data, err := k.codec.encode(mediaJSON, obj())
	if err != nil {
		return nil, err
	}
	data = bytes.Clone(bytes.TrimRight(data, "\n")) // without the encoder's spare room
	at.Store(&data)
	return data, nil
}

// marshaled makes sure that appendMessage has what it needs.
func (k *kind) marshaled(i *item) error {
	o := i.Object
	if o.parts.usable() || o.proto.Load() != nil {
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
	if i.Object.parts.usable() {
		return i.Object.parts.size(i.Revision)
	}
	return len(*i.Object.proto.Load())
}

// appendMessage appends the object as a protobuf message. marshaled must have
// been called.
func appendMessage(to []byte, i *item) []byte {
	if i.Object.parts.usable() {
		return i.Object.parts.appendTo(to, i.Value, i.Revision)
	}
	return append(to, *i.Object.proto.Load()...)
}
