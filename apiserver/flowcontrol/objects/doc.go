// Package objects connects package flowcontrol to the API: it reads FlowSchemas and
// PriorityLevelConfigurations of flowcontrol.apiserver.k8s.io/v1 into a
// configuration and keeps the objects that Kubernetes v1.36 begins with.
//
//	config, skipped := objects.Config(levels, schemas, 600)
//
//	keeper, err := objects.NewKeeper(objects.KeeperConfig{
//		Levels: levelCache, Schemas: schemaCache, // such as an *informer.Informer
//		LevelClient: typed.PriorityLevelConfigurations(api), SchemaClient: typed.FlowSchemas(api),
//		Target: controller, Seats: 600,
//	})
//	err = keeper.Run(ctx)
//
// # Model
//
// [Config] is pure. It skips an object that is not valid, which only an API server
// with other rules can have stored, and a schema whose level is missing or skipped.
// It adds a mandatory object where none is usable, so the configuration is always
// complete.
//
// [Mandatory] and [Suggested] are the objects of flowcontrol.Default. A [Keeper]
// creates those that are missing: mandatory ones within a second, suggested ones
// within a minute. It restores their specs as the annotation
// apf.kubernetes.io/autoupdate-spec says: always for mandatory objects; for suggested
// ones if the annotation is true, or if it is absent and the spec has not been changed
// (generation 1). It deletes an object that has the annotation and is no longer among
// them. A user keeps a change of a suggested object by setting the annotation to
// false. The Keeper writes the condition Dangling into the status of every FlowSchema.
//
// Several servers may each run a Keeper. They come to the same objects. A Keeper
// writes the status of one schema six times a minute at most, so that servers that
// disagree do not fill the store.
//
// # Failure
//
// A write that fails is logged and repeated, after 200 ms at first and after a minute
// at most. The Target is configured from the caches whether or not writes succeed.
package objects
