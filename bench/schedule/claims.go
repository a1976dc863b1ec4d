package main

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/kinds/kind"
	resourcev1 "k8s.io/api/resource/v1"
)

// claimResources are the kinds of dynamic resource allocation. planekit does not serve them, but the stock
// scheduler does not start without them.
func claimResources() []apiserver.Resource {
	return []apiserver.Resource{
		apiserver.For(kind.Define(kind.Kind[*resourcev1.ResourceClaim]{
			Group: resourcev1.GroupName, Version: "v1", Kind: "ResourceClaim", Plural: "resourceclaims", Namespaced: true,
		}), apiserver.Resource{}),
		apiserver.For(kind.Define(kind.Kind[*resourcev1.ResourceSlice]{
			Group: resourcev1.GroupName, Version: "v1", Kind: "ResourceSlice", Plural: "resourceslices",
		}), apiserver.Resource{}),
		apiserver.For(kind.Define(kind.Kind[*resourcev1.DeviceClass]{
			Group: resourcev1.GroupName, Version: "v1", Kind: "DeviceClass", Plural: "deviceclasses",
		}), apiserver.Resource{}),
	}
}
