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
// authorization (403, or 500 where nobody could tell), routing, decoding (400, 413,
// 415), the resource's defaults and preparation,
// mutating admission (403), validation (422), validating admission, and storage
// in one transaction (409). The message of an error is the one that Kubernetes
// gives where clients and people know it. A dry run goes the same way and stops
// short of the transaction. A patch, or an update without a resourceVersion, that
// another write overtakes is tried again from the new state; one that names the
// resourceVersion it was made from is refused.
//
// Every write through an object's own path or a subresource of its own kind is
// recorded in metadata.managedFields, by apimachinery's rules, under the
// fieldManager it names or the program its User-Agent begins with. Server-side
// apply merges by the same records; what it contradicts is a conflict (409) with
// the owner's name. Lists of a type merge by key where the type says so: a struct
// tag patchStrategy with patchMergeKey, or Kubernetes' own comments.
//
// A read sees every write that was acknowledged before it began, unless it names
// a resourceVersion that is enough for it. A paged list shows all pages as of one
// revision. A watch delivers every change after its resourceVersion once and in
// order, or ends with 410 where nobody remembers that far back; it never skips. An
// object that enters or leaves a selection is seen as added or deleted.
//
// Both are served from a cache per resource (package storage/cache), which is
// filled when the resource is first read and from then on follows the store. That
// a read is current costs asking the store for its revision. An object is decoded
// once; what is sent of it, as JSON or protobuf, alone, in a list or in a watch, is
// made of bytes that are made once. Run follows the store; a server that is not run
// does so when a read or a watch waits for it. A write begins with the cached
// object and confirms with the store whatever comes of it but a committed change.
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
// # Objects that are not there yet
//
// With [Config].Initializers a new object may have to wait for initializers, as
// in Kubernetes 1.7 to 1.13: it has metadata.initializers.pending, and is there
// only for requests with includeUninitialized=true until the list is empty. The
// create waits for that, half a minute at most, without a seat of flow control.
// Only who has the verb initialize may change the object
// until then; the first pending initializer alone may be taken off, or a result
// set, which fails the create and deletes the object. Such a change is checked as
// a new object is, so what could not change later can. Anybody who may delete the
// object may do so: it goes at once. Deleting a collection takes these too.
//
// The field is in no Go type any more. It is kept beside the object, in front of
// its record, which no other program can read until then, and sent as JSON and
// YAML; in protobuf the object comes without it. A request that does not have the
// field leaves it as it is: an update by a client that does not know it
// initializes nothing. To be done, say pending: [] or null.
//
// # How it fails
//
// Whatever the cause, clients get a metav1.Status. A panic in a handler costs
// that request alone. A record which cannot be decoded is named in a Warning
// header and left out of lists, 500 when asked for by name. A request for a
// revision that the store has not reached waits three seconds, then gets 504. A
// client that reads its watch too slowly is cut off without delaying others. Requests
// beyond what [Config].FlowControl lets in wait, and get 429 where there are too
// many of one flow or they wait for 15 seconds. A request's body is read before: one that is too slow gets 408, one of more than
// 3 MiB gets 413, and a user who has too many in memory waits, then gets 429.
// A request that takes over a minute gets 504.
// When storage fails, /readyz does and /livez does not.
//
// # What it leaves out
//
// Several versions of one resource with conversion
// between them, CBOR. How a pod's log or
// a shell in it is reached is up to Subresource.Connect. Authentication,
// authorization and admission are packages of their own.
package apiserver
