package apiserver

import (
	"context"
	"slices"
	"time"

	"github.com/planekit/planekit/kinds/kind"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Resource describes one REST resource. It is data: routes, discovery, OpenAPI,
// decoding, storage keys and tables are all derived from it. [For] takes the names and the Go type
// from a [kind.Kind], which clients use too. Every function in it must be safe for concurrent use.
type Resource struct {
	// Group is the API group; "" is the core group, served under /api.
	Group string
	// Version is such as "v1".
	Version string
	// Kind is such as "Pod".
	Kind string
	// ListKind is the kind of lists; empty means Kind + "List".
	ListKind string
	// Plural is the lower-case name in URLs, a DNS label such as "pods".
	Plural string
	// Singular is the lower-case singular; empty means Kind in lower case.
	Singular string
	// ShortNames are further names that kubectl accepts, such as "po".
	ShortNames []string
	// Categories are such as "all".
	Categories []string
	// Namespaced is set if objects are in namespaces.
	Namespaced bool

	// New returns an empty object of the resource's Go type. If that type, or a type in it, has a
	// method SwaggerDoc() map[string]string, as Kubernetes' types have, kubectl explain prints its
	// result: descriptions by JSON field name, and under "" the description of the type.
	New func() runtime.Object
	// NewList returns an empty list of the same type.
	NewList func() runtime.Object

	// Schema, if not nil, describes objects whose Go type does not.
	Schema *Schema
	// Warnings say that the version is deprecated. They are sent with every response, and mark
	// requests for it in metrics. Types of Kubernetes add their own.
	Warnings []string
	// Closed, if not nil, is the error of every create, such as while the resource is about to be
	// removed. Closed applies to all versions.
	Closed error
	// Unserved keeps the resource from being served in its own version, in which it is stored. It
	// must have other versions that are.
	Unserved bool

	// StoredJSON stores objects as JSON although their type has protobuf, as kube-apiserver does with definitions of
	// resources and APIServices.
	StoredJSON bool

	// Verbs lists the served verbs; empty means all of create, delete, deletecollection, get, list,
	// patch, update and watch.
	Verbs []string
	// Strategy completes and validates objects.
	Strategy Strategy
	// Conditional refuses a PUT of an object, or of its status, that has no metadata.resourceVersion.
	// Other resources let it replace the object whatever its version is.
	Conditional bool
	// CreateOnUpdate lets a PUT of an object that does not exist create it, for users who may create it.
	CreateOnUpdate bool
	// Columns lists the columns of the server-side table in order. The table begins
	// with the default Name column unless Columns has a column called Name. Age is a
	// column like any other, see [AgeColumn]. Empty means Name and Age only.
	Columns []Column
	// Fields are the selectable fields beyond metadata.name and
	// metadata.namespace, by path, such as "spec.nodeName".
	Fields map[string]func(runtime.Object) string
	// Subresources are served under the object's path.
	Subresources []Subresource
	// Resets are the paths of fields that a request for the object itself cannot
	// change, such as "status" or "spec.finalizers": trying makes no manager their
	// owner. Nil means status if there is a subresource of that name.
	Resets []string
	// AfterCreate, if not nil, is called after a new object has been stored and before the
	// response. The object is shared and must not be changed. AfterCreate is not called if the
	// process ends before it.
	AfterCreate func(ctx context.Context, obj runtime.Object)
	// Decorate, if not nil, computes fields that are not stored from the stored ones. It is called
	// whenever an object comes from the store or has been stored, and may change the object, which
	// is not shared yet. An update contains the computed fields: PrepareForUpdate must remove them.
	Decorate func(obj runtime.Object)
	// Share, if not nil, deduplicates parts of an object before it is cached: it replaces them by
	// equal parts of cached objects. It may change the object, which is not shared yet. Afterwards
	// the parts must not be changed. The server deduplicates metadata itself.
	Share func(obj runtime.Object)
	// Packing, if not nil, makes cached objects small.
	Packing *Packing
	// Answer, if not nil, makes the resource a question (an access review):
	// only create is served, nothing is stored, and the client gets what Answer
	// returns for the object it sent. NewList may be nil then. The user is in the
	// context (see package user), which [Annotate] and [Warn] take.
	Answer func(ctx context.Context, obj runtime.Object) (runtime.Object, error)
	// TTL is how long an object is kept after it was last written, in whole seconds; zero means
	// forever.
	TTL time.Duration
	// Versions are further versions in which the objects are served.
	Versions []Version
	// Converter, if not nil, converts objects between the versions, in place of the functions To and
	// From of Versions. Each version then needs its own Strategy, and inherits nothing else. A
	// resource with a Converter must not have Allocation, AfterCreate, Decorate or Packing.
	Converter Converter
	// Relabel, if not nil, returns obj, of one version, as an object of another one with all its fields, for admission.
	// The functions To and From may then drop those that the other version does not have, so that the server answers a
	// write with what it has stored. Relabel must not change obj; the result may share its parts. It is not used beside
	// a Converter.
	Relabel func(obj runtime.Object, version string) (runtime.Object, error)
	// StoredAs, if not nil, is the resource whose objects this one shows in another form, as two
	// groups serve the same events.
	StoredAs *StoredForm
	// Allocation, if not nil, assigns unique values to objects.
	Allocation *Allocation

	// storedForms are the versions in which objects may be stored if there is a Converter.
	storedForms map[string]convertedForm
}

// Packing makes cached objects small whose parts are large and seldom needed. Their encodings are not kept
// either.
type Packing struct {
	// Pack packs parts of an object before it is cached. It may change the object, which is not shared
	// yet. Columns, Fields, the strategies of subresources with Resets and PrepareForDelete see packed
	// objects, and these are encoded as before.
	Pack func(obj runtime.Object)
	// Unpack returns a copy of an object with all its parts.
	Unpack func(obj runtime.Object) (runtime.Object, error)
}

// A Schema describes the objects of a resource if their Go type holds any fields. Such objects have a
// kind in lists, too, and accept no strategic merge patches.
type Schema struct {
	// Name is the name of the schema in OpenAPI documents, such as "com.example.v1.Widget".
	Name string
	// V3 and V2 return the JSON of the schema for OpenAPI v3 and v2, with the extension
	// x-kubernetes-group-version-kind. References are to [ObjectMetaV3] and [ObjectMetaV2]. V3 also
	// says how fields merge in server-side apply.
	V3, V2 func() ([]byte, error)
}

// References to the schema of object metadata in OpenAPI documents.
const (
	ObjectMetaV3 = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	ObjectMetaV2 = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
)

// For returns r with the names, the Go types and the versions of kind k. If r.Versions has a version
// of the same name as one of k, that has what else a server can do in it.
func For[T runtime.Object](k kind.Kind[T], r Resource) Resource {
	r.Group, r.Version, r.Kind, r.Plural, r.Namespaced = k.Group, k.Version, k.Kind, k.Plural, k.Namespaced
	r.ShortNames, r.Categories = slices.Clone(k.ShortNames), slices.Clone(k.Categories)
	r.New, r.NewList = nil, k.NewList
	if k.New != nil {
		r.New = func() runtime.Object { return k.New() }
	}
	var versions []Version
	for _, v := range k.Versions {
		versions = append(versions, Version{Name: v.Name, New: v.New, NewList: v.NewList, To: v.To, From: v.From})
	}
	r.Versions = mergeVersions(versions, r.Versions)
	return r
}

// A StoredForm is the form in which objects are stored if it differs from the one in which they are
// served. Two resources with the same stored form have the same objects: reads and watches of one
// show writes through the other.
type StoredForm struct {
	// Group, Version, Kind and Plural are those of the resource that the objects belong to.
	Group, Version, Kind, Plural string
	// New returns an empty object of that resource.
	New func() runtime.Object
	// To converts a served object to the stored one, and From the reverse, as those of a
	// [Version] do. Required.
	To, From func(obj runtime.Object) (runtime.Object, error)
	// complete, if not nil, fills what a stored object leaves out before From converts it.
	complete func(stored runtime.Object)
	// versions are the versions in which objects may have been stored before.
	versions []Version
	// subresources belong to the stored version.
	subresources []Subresource
}

// Allocation assigns values that at most one object of a resource may have, such as cluster IPs and
// node ports. A value is recorded under a key of its own before the object is stored, in one
// guarded write, so that only one of several servers gets it. It is released if the object is not
// stored, loses the value, or is deleted. The values of a server that failed are free again after a
// minute.
type Allocation struct {
	// Names returns the values that obj has, such as "ip/10.96.0.10".
	Names func(obj runtime.Object) []string
	// Fill completes obj, which is about to be validated and stored; old is nil for a new object.
	// It takes the values of obj that old does not have, and returns an API status error if one is
	// not available.
	Fill func(obj, old runtime.Object, values Values) error
	// Shown, if not nil, records some of the values as objects of another resource.
	Shown *ShownValues
}

// Values are the values of the objects of a resource, during the allocation for one object.
type Values interface {
	// Take takes a value, and reports whether it was free or already the object's. In a dry run it
	// changes nothing.
	Take(name string) (bool, error)
	// Taken returns a function that reports from memory whether a value is taken. It knows only
	// values that [Allocation.Shown] records. What it knows may be old; if now is set, it has every
	// change that was acknowledged before the call, and values that a failed server has left over are
	// not taken.
	Taken(now bool) (func(name string) bool, error)
	// All returns the objects of another resource, which are shared and must not be changed. There
	// are none if the server does not serve it. They have every change that was acknowledged before
	// the call.
	All(resource schema.GroupResource) ([]runtime.Object, error)
}

// ShownValues are values that are recorded as objects, such as IPAddresses, which clients can read.
// The server stores and removes them itself, without admission. All fields are required.
type ShownValues struct {
	// Resource is the resource of the objects, which has no namespaces. If it is not served, the
	// values are recorded as all others are.
	Resource schema.GroupResource
	// Name returns the name of the object that records a value, or "" if it is not recorded so.
	Name func(value string) string
	// New returns the object that records a value of the object of that namespace and name.
	New func(value, namespace, name string) runtime.Object
	// Holder returns the namespace and the name of the object that has the value. ok is false if
	// obj is a client's own, so that only clients remove it.
	Holder func(obj runtime.Object) (namespace, name string, ok bool)
}

// Strategy completes and checks objects of one type. Every function may be nil.
// Functions get objects of the resource's own Go type and may change only obj,
// never old.
type Strategy struct {
	// Default fills what a client may leave out. It runs after every decode, from
	// the wire and from storage, so it must be idempotent.
	Default func(obj runtime.Object)
	// PrepareForCreate clears the fields that clients may not set (status) and sets those that only
	// the server may set (generation).
	PrepareForCreate func(ctx context.Context, obj runtime.Object)
	// PrepareForUpdate keeps the fields of old that this request may not change: status for the
	// object itself, everything else for the status subresource. It increments metadata.generation
	// if the desired state changed.
	PrepareForUpdate func(ctx context.Context, obj, old runtime.Object)
	// Validate checks a new object. Object metadata is checked by the server.
	Validate func(ctx context.Context, obj runtime.Object) field.ErrorList
	// ValidateUpdate checks a change. Metadata is checked by the server.
	ValidateUpdate func(ctx context.Context, obj, old runtime.Object) field.ErrorList
	// ValidateName checks metadata.name; nil means a DNS-1123 subdomain. If prefix is set, name is
	// a generateName prefix.
	ValidateName func(name string, prefix bool) []string
	// Grace, if not nil, makes deletion graceful. It returns the number of seconds for which the
	// object stays with a deletionTimestamp, until a client deletes it again with zero seconds.
	// Zero deletes the object at once.
	Grace func(obj runtime.Object, options *metav1.DeleteOptions) int64
	// Finalizing, if not nil, reports whether the object has finalizers outside its
	// metadata (a namespace's spec.finalizers) and must stay.
	Finalizing func(obj runtime.Object) bool
	// PrepareForDelete, if not nil, adjusts an object whose deletion has to wait for
	// grace or finalizers (a namespace's phase becomes Terminating).
	PrepareForDelete func(obj runtime.Object)
	// GarbageCollection is the propagation policy of a delete that names none; empty is
	// Background. With [NoGarbageCollection], the object has no dependents, and policies mean nothing.
	GarbageCollection metav1.DeletionPropagation
	// Warnings returns what the response to the creation of obj warns of, or to the change of old into obj. Nil
	// warns of nothing.
	Warnings func(obj, old runtime.Object) []string
	// QualifiedFinalizers refuses new finalizers without a domain, but for the standard ones.
	QualifiedFinalizers bool
	// MetadataChecks are the checks of changed metadata that kube-apiserver makes once more. Nil is CheckChange alone.
	MetadataChecks []MetadataCheck
	// DeleteWarning is in the response to a delete that names no propagation policy. Empty warns of nothing.
	DeleteWarning string
	// ShowDeleted has the response to a delete be the object, and not a Status, also if the object is gone.
	ShowDeleted bool
}

// A MetadataCheck is one that a strategy makes of changed metadata, as the server has made it before. What is wrong is in the
// response once for each.
type MetadataCheck int

const (
	// CheckChange compares metadata with that before the change.
	CheckChange MetadataCheck = iota
	// CheckNew checks metadata as that of a new object.
	CheckNew
)

// Column is one column of a server-side table
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables).
type Column struct {
	// Name is the heading, such as "Ready". Required.
	Name string
	// Type is an OpenAPI type: string, integer, number, boolean or date. Required.
	Type string
	// Format is an OpenAPI format; may be empty.
	Format string
	// Description explains the column to users.
	Description string
	// Priority is 0 for columns always shown, 1 for those of -o wide.
	Priority int32
	// Value returns the cell: a string, int64, float64 or bool. Required.
	Value func(obj runtime.Object) any
	// Steady is set if the cell depends only on the object, so that Value is called once for each
	// state of the object. An age is not steady.
	Steady bool
}

// SpecStatus returns the strategy of a resource whose objects have a spec and a status, and its
// status subresource, as those of a CustomResourceDefinition behave:
//
//   - a request for the object does not change the status, and a new object has none;
//   - a request for the status changes neither spec nor metadata;
//   - metadata.generation begins with 1 and grows with each change of the spec.
//
// spec and status return pointers to the two fields of an object. Both results may be extended:
//
//	strategy, status := apiserver.SpecStatus(
//		func(w *Widget) *WidgetSpec { return &w.Spec },
//		func(w *Widget) *WidgetStatus { return &w.Status })
//	strategy.Validate = ...
func SpecStatus[T runtime.Object, Spec, State any](spec func(T) *Spec, status func(T) *State) (Strategy, Status) {
	main := Strategy{
		PrepareForCreate: func(_ context.Context, obj runtime.Object) {
			*status(obj.(T)) = *new(State)
			accessor(obj).SetGeneration(1)
		},
		PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) {
			before := old.DeepCopyObject().(T)
			*status(obj.(T)) = *status(before)
			generation := accessor(old).GetGeneration()
			if !equality.Semantic.DeepEqual(spec(obj.(T)), spec(before)) {
				generation++
			}
			accessor(obj).SetGeneration(generation)
		},
	}
	return main, Status{
		Strategy: Strategy{PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) {
			before := old.DeepCopyObject().(T)
			*spec(obj.(T)) = *spec(before)
			keepMetadata(obj, before)
		}},
		Resets: []string{"spec", "metadata"},
	}
}

// keepMetadata gives obj the metadata of old, but for what the server keeps track of itself.
func keepMetadata(obj, old runtime.Object) {
	now, before := accessor(obj), accessor(old)
	now.SetLabels(before.GetLabels())
	now.SetAnnotations(before.GetAnnotations())
	now.SetOwnerReferences(before.GetOwnerReferences())
	now.SetFinalizers(before.GetFinalizers())
	now.SetGeneration(before.GetGeneration())
}
