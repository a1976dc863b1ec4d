package node

import (
	"fmt"

	"github.com/planekit/planekit/authz"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Results of limited. A request without a result is allowed; otherwise the text is the reason to
// refuse it.
const (
	related   = "\x00only what is related to the node"
	unlimited = "\x00as any other resource"
	unsaid    = "\x00refused without a reason"
)

// limited checks a request of a node. The texts are Kubernetes'.
func limited(at *authz.Attributes, name string) string {
	switch at.Group {
	case "":
		switch at.Resource {
		case secrets, configMaps:
			return readNamespaced(at)
		case claims:
			return claim(at)
		case volumes:
			return get(at)
		case serviceAccounts:
			return serviceAccount(at)
		case pods:
			return pod(at, name)
		case "nodes":
			return node(at, name)
		}
	case "resource.k8s.io":
		switch at.Resource {
		case resourceClaims:
			return get(at)
		case resourceSlices:
			return slice(at, name)
		}
	case "storage.k8s.io":
		switch at.Resource {
		case attachments:
			return get(at)
		case "csinodes":
			return csiNode(at, name)
		}
	case "coordination.k8s.io":
		if at.Resource == "leases" {
			return lease(at, name)
		}
	}
	return unlimited
}

func get(at *authz.Attributes) string {
	switch {
	case at.Verb != "get":
		return "can only get individual resources of this type"
	case at.Subresource != "":
		return "cannot get subresource"
	}
	return related
}

func readNamespaced(at *authz.Attributes) string {
	switch {
	case at.Verb != "get" && at.Verb != "list" && at.Verb != "watch":
		return "can only read resources of this type"
	case at.Subresource != "":
		return "cannot read subresource"
	case at.Namespace == "":
		return "can only read namespaced object of this type"
	}
	return related
}

// claim allows a node to update the status of a claim, which it does after it has resized the file
// system.
func claim(at *authz.Attributes) string {
	if at.Subresource != "status" {
		return get(at)
	}
	if at.Verb != "update" && at.Verb != "patch" {
		return "can only get/update/patch this type"
	}
	return related
}

func serviceAccount(at *authz.Attributes) string {
	switch {
	case at.Verb == "get" && at.Subresource == "":
		return readNamespaced(at)
	case at.Verb != "create" || at.Name == "":
		return "can only create tokens for individual service accounts"
	case at.Subresource != "token":
		return "can only create token subresource of serviceaccount"
	}
	return related
}

// lease and csiNode do not know the name on create: admission checks it.
func lease(at *authz.Attributes, name string) string {
	switch {
	case !ownVerb(at.Verb):
		return "can only get, create, update, patch, or delete a node lease"
	case at.Namespace != corev1.NamespaceNodeLease:
		return fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case at.Verb != "create" && at.Name != name:
		return "can only access node lease with the same name as the requesting node"
	}
	return ""
}

func csiNode(at *authz.Attributes, name string) string {
	switch {
	case !ownVerb(at.Verb):
		return "can only get, create, update, patch, or delete a CSINode"
	case at.Subresource != "":
		return "cannot authorize CSINode subresources"
	case at.Verb != "create" && at.Name != name:
		return "can only access CSINode with the same name as the requesting node"
	}
	return ""
}

// slice allows a node to manage its own resource slices. Admission checks the owner of a new one.
func slice(at *authz.Attributes, name string) string {
	if at.Subresource != "" {
		return "cannot authorize ResourceSlice subresources"
	}
	switch at.Verb {
	case "create":
		return ""
	case "get", "update", "patch", "delete":
		return related
	case "list", "watch", "deletecollection":
		if at.FieldIs(resourcev1.ResourceSliceSelectorNodeName, name) {
			return ""
		}
		return "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

// ownVerb reports whether a node may use verb on the object with its own name.
func ownVerb(verb string) bool {
	switch verb {
	case "get", "create", "update", "patch", "delete":
		return true
	}
	return false
}

func node(at *authz.Attributes, name string) string {
	switch at.Subresource + ":" + at.Verb {
	case ":create", ":update", ":patch", "status:update", "status:patch":
		return "" // admission checks the name
	case ":get", ":list", ":watch":
		switch at.Name {
		case name:
			return "" // even before it is registered
		case "":
			return fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", name)
		}
		return fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", name, at.Name)
	}
	return unsaid
}

func pod(at *authz.Attributes, name string) string {
	switch at.Subresource + ":" + at.Verb {
	case ":create", ":delete", "status:update", "status:patch", "eviction:create":
		return "" // admission checks the pod
	case ":get":
		return related
	case ":list", ":watch":
		switch {
		case at.FieldIs("spec.nodeName", name):
			return ""
		case at.Name != "":
			return related
		}
		return "can only list/watch pods with spec.nodeName field selector"
	}
	return unsaid
}
