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
// version; conversion to other versions changes the apiVersion only.
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
// # Left out
//
// Conversion by webhook: definitions with that strategy are refused. Without a [RuleCompiler], which package
// apiserver/crd/rules has, definitions with x-kubernetes-validations are refused, too. CBOR.
package crd
