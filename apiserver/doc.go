// Package apiserver serves Kubernetes-style APIs over HTTP from data.
//
// A [Resource] describes a type: its names, its Go type, how it is completed
// and checked, its columns and subresources. A [Server] is made of resources and
// a store; routes, discovery, OpenAPI, tables, validation of metadata and
// optimistic concurrency follow from them. Stock kubectl and client-go work
// against it.
//
//	server, err := apiserver.New(apiserver.Config{
//		Store:         memstore.New(),
//		Resources:     []apiserver.Resource{widgets},
//		Authenticator: authenticator,
//		Authorizer:    authorizer,
//		Listener:      listener,
//		TLS:           &tls.Config{Certificates: certificates},
//	})
//	err = server.Run(ctx)
//
// A server without an authenticator or authorizer does not start. Package
// apiservertest starts one inside a test in milliseconds.
//
// # The path of a request
//
// A write passes, in this order: authentication (401), impersonation (403) and
// authorization (403, or 500 if the authorizer failed), routing, decoding (400, 413,
// 415), the resource's defaults and preparation, mutating admission (403), validation
// (422), validating admission, and storage in one transaction (409). The message of
// an error is the one that Kubernetes gives where clients and people know it. A dry
// run goes the same way and stops short of the transaction. A patch, or an update
// without a resourceVersion, that another write overtakes is tried again from the
// new state; one that names the resourceVersion it was made from is refused.
//
// Every write through an object's own path or a subresource of its own kind is
// recorded in metadata.managedFields, by apimachinery's rules, under the
// fieldManager it names or the program its User-Agent begins with. Server-side
// apply merges by the same records; what it contradicts is a conflict (409) with
// the owner's name. Lists of a type merge by key where the type says so: a struct
// tag patchStrategy with patchMergeKey, or Kubernetes' own comments.
//
// A read sees every write that was acknowledged before it began. A read that names a
// resourceVersion may be older, but not older than that version. A paged list shows
// all pages as of one revision. A watch delivers every change after its
// resourceVersion once and in order, or ends with 410 if the store no longer has
// them; it never skips. An object that enters or leaves a selection is seen as added
// or deleted.
//
// Reads and watches are served from a cache per resource (package storage/cache). The
// first read fills the cache, which then follows the store. To be current, a read
// asks the store only for its revision. The server decodes an object once, and
// encodes its JSON and its protobuf once, for single objects, lists and watches. Run
// follows the store; a server that is not run follows it while a read or a watch
// waits. A write starts from the cached object. If it ends with an error or without a
// change, the server reads the stored object before it answers, and repeats the write
// if the cached object was old.
//
// Bodies and answers are JSON, YAML, CBOR, or protobuf if the type can. CBOR becomes JSON when it is
// received and is made of JSON when it is sent, for every kind.
//
// Requests may come over the wire or through memory ([Server.Transport]), which
// leaves out TLS and credentials and nothing else.
//
// # What is stored
//
// An object lies under prefix/group/plural/namespace/name ("core" for the core
// group) unless [Config].Layout says otherwise: package kube has the layout of
// kube-apiserver, whose etcd a server can go on with. It lies there as protobuf
// if its type can, else as JSON, without its resourceVersion, which is the
// revision of the store. What objects hold for themselves alone ([Allocation])
// is recorded under prefix/held. Objects from the cache are shared: strategies,
// columns and admission must never change an old object.
//
// # Versions
//
// A resource may be served in several versions ([Version]). Its objects are stored
// in one of them, and two functions convert between it and each other version.
// What an earlier server has stored in another of them is converted when it is
// read. As in Kubernetes, a request is in the version of its path in every respect,
// and one strategy checks the objects of all versions.
//
// With a [Converter], which may be slow or fail, objects are converted when a request needs them,
// all of a list at once, and only if they are stored in another version. Every version then has its
// own strategy. A write shows the object as a read would: converted to be stored, and back. If
// either fails, nothing is stored.
//
// # Hidden objects
//
// With [Config].Initializers a new object may have to wait for initializers, as
// in Kubernetes 1.7 to 1.13: it has metadata.initializers.pending, and is hidden
// from requests without includeUninitialized=true until the list is empty. The
// create waits for that, half a minute at most, without a seat of flow control.
// Until then only users with the verb initialize may change the object. They may
// remove the first pending initializer, or set a result, which fails the create
// and deletes the object. Such a change is checked as a new object is, so
// immutable fields may change. Users who may delete the object may do so: it goes
// at once. Deleting a collection deletes hidden objects too.
//
// The field is in no Go type any more. It is kept beside the object, in front of
// its record, which no other program can read until then, and sent as JSON and
// YAML; in protobuf the object comes without it. A request that does not have the
// field leaves it as it is: an update by a client that does not know it
// initializes nothing. An initializer that is done sends pending: [] or null.
//
// # How it fails
//
// Whatever the cause, clients get a metav1.Status. A panic in a handler costs
// that request alone. A record which cannot be decoded is named in a Warning
// header and left out of lists; a request for it by name gets 500. A request for a
// revision that the store has not reached waits three seconds, then gets 504. A
// client that reads its watch too slowly is cut off without delaying other clients.
//
// Requests beyond what [Config].FlowControl allows wait. They get 429 if too many of
// one flow wait, or after 15 seconds. A request's body is read before that: a body
// that is too slow gets 408, one of more than 3 MiB gets 413, and a user with too
// many bodies in memory waits, then gets 429. A request that takes over a minute gets
// 504. When storage fails, /readyz does and /livez does not.
//
// # What it leaves out
//
// CBOR. How a pod's log or a shell in it is reached is up to
// [Proxy]. Authentication, authorization and admission are packages of their own.
package apiserver
