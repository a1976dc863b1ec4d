// Package crd serves CustomResourceDefinitions: resources that are described by objects and not by Go types
// (https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/).
//
//	config.Resources = append(config.Resources, crd.Resource(nil))
//	server, err := apiserver.New(config)
//	definitions, err := crd.New(crd.Config{Server: server})
//	go server.Run(ctx)
//	go definitions.Run(ctx)
//	<-definitions.Ready()
//
// # Model
//
// A definition becomes an [apiserver.Resource], which the server serves like any other: routes, discovery,
// OpenAPI, tables, watches, server-side apply and storage are those of the server. Run follows the definitions
// and calls [apiserver.Server.Change] for each change. A definition is Established after it is served.
//
// A schema is compiled at its first use. Objects are completed by it when they are decoded, from the wire and
// from storage: unknown fields are removed and defaults are set. They are stored as JSON in the storage
// version. Without a webhook, conversion to other versions changes the apiVersion only.
//
// A conversion webhook is asked as kube-apiserver asks it, with ConversionReviews of v1 or v1beta1, and its answers
// are checked alike. It is asked for all objects of a list or of a watch's backlog at once, in questions of 8 MiB at
// most, and only for objects that are stored in another version than the one of the request; what it has answered
// is kept until the object changes. kube-apiserver asks for each object by itself.
//
// Deleting a definition first ends all creates of its objects, then deletes them, and then removes the
// definition. It waits for the finalizers of objects.
//
// # Failure
//
// A definition that cannot be served, for example because the server has a resource of that name, is not
// established; the reason is logged. Run tries again what fails. Ready is closed when all definitions that
// were established are served.
//
// A request fails with kube-apiserver's words (500, "conversion webhook for example.com/v1, Kind=Widget failed: ...")
// if its objects cannot be converted, and a watch ends with such an ERROR event. A call takes 30 seconds at most, and ends
// with its request. An answer of more than 8 MiB and four times the question, or of 64 MiB, is refused. Nothing is
// stored that could not be converted back. Requests in the storage version go on.
//
// # Left out
//
// CBOR. Without a [RuleCompiler], which package apiserver/crd/rules has, definitions with x-kubernetes-validations
// are refused. Redirects of a conversion webhook are not followed.
package crd
