package rbac

import (
	"github.com/planekit/planekit/authn/user"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Combinations of verbs.
const (
	read      = "get list watch"
	write     = "create update patch delete deletecollection"
	readWrite = read + " " + write
)

// API groups with long names.
const (
	admissionGroup      = "admissionregistration.k8s.io"
	authenticationGroup = "authentication.k8s.io"
	authorizationGroup  = "authorization.k8s.io"
	certificatesGroup   = "certificates.k8s.io"
	coordinationGroup   = "coordination.k8s.io"
	discoveryGroup      = "discovery.k8s.io"
	networkingGroup     = "networking.k8s.io"
	resourceGroup       = "resource.k8s.io"
	storageGroup        = "storage.k8s.io"
)

const bothEvents = "core events.k8s.io"

// events allows a component to record events.
var events = line{"create update patch", bothEvents, "events"}

// generalRoles are the roles of administrators, and those that grant every user what needs no
// protection.
var generalRoles = []roleTemplate{
	{name: "cluster-admin", groups: user.Masters, rules: []line{
		{"*", "*", "*"},
		{"*", urls, "*"},
	}},
	{name: "system:discovery", groups: user.Authenticated, rules: []line{
		{"get", urls, "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"},
	}},
	{name: "system:basic-user", groups: user.Authenticated, rules: []line{
		{"create", authorizationGroup, "selfsubjectaccessreviews selfsubjectrulesreviews"},
		{"create", authenticationGroup, "selfsubjectreviews"},
	}},
	{name: "system:public-info-viewer", groups: user.Authenticated + " " + user.Unauthenticated, rules: []line{
		{"get", urls, "/healthz /livez /readyz /version /version/"},
	}},
	{name: "system:monitoring", groups: "system:monitoring", rules: []line{
		{"get", urls, "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"},
		{"get", "core", "nodes/metrics"},
	}},
	{name: "system:service-account-issuer-discovery", groups: user.ServiceAccounts, rules: []line{
		{"get", urls, "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"},
	}},
	{name: "system:cluster-trust-bundle-discovery", groups: user.ServiceAccounts, rules: []line{
		{read, certificatesGroup, "clustertrustbundles"},
	}},
}

// userFacingRoles are admin, edit and view for a namespace, and their parts.
var userFacingRoles = []roleTemplate{
	{name: "admin", selects: "admin"},
	{name: "edit", selects: "edit", label: "admin"},
	{name: "view", selects: "view", label: "edit"},
	{name: "system:aggregate-to-admin", label: "admin", rules: []line{
		{"create", authorizationGroup, "localsubjectaccessreviews"},
		{readWrite, rbacv1.GroupName, "rolebindings roles"},
	}},
	{name: "system:aggregate-to-edit", label: "edit", rules: []line{
		{read, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"},
		{"impersonate", "core", "serviceaccounts"},
		{write, "core", "pods pods/attach pods/exec pods/portforward pods/proxy configmaps"},
		{write, "core", "persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets"},
		{write, "core", "serviceaccounts services services/proxy"},
		{"create", "core", "pods/eviction serviceaccounts/token"},
		{write, bothEvents, "events"},
		{write, "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets"},
		{write, "apps", "replicasets/scale statefulsets statefulsets/scale"},
		{write, "autoscaling", "horizontalpodautoscalers"},
		{write, "batch", "cronjobs jobs"},
		{write, "extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses"},
		{write, "extensions", "networkpolicies replicasets replicasets/scale replicationcontrollers/scale"},
		{write, "policy", "poddisruptionbudgets"},
		{write, networkingGroup, "ingresses networkpolicies"},
		{readWrite, coordinationGroup, "leases"},
		{write, resourceGroup, "resourceclaims resourceclaimtemplates"},
	}},
	{name: "system:aggregate-to-view", label: "view", rules: []line{
		{read, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods"},
		{read, "core", "replicationcontrollers replicationcontrollers/scale serviceaccounts services"},
		{read, "core", "services/status bindings limitranges namespaces/status pods/log pods/status"},
		{read, "core", "replicationcontrollers/status resourcequotas resourcequotas/status namespaces"},
		{read, bothEvents, "events"},
		{read, discoveryGroup, "endpointslices"},
		{read, "apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale"},
		{read, "apps", "deployments/status replicasets replicasets/scale replicasets/status statefulsets"},
		{read, "apps", "statefulsets/scale statefulsets/status"},
		{read, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"},
		{read, "batch", "cronjobs cronjobs/status jobs jobs/status"},
		{read, "extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status"},
		{read, "extensions", "ingresses ingresses/status networkpolicies replicasets replicasets/scale"},
		{read, "extensions", "replicasets/status replicationcontrollers/scale"},
		{read, "policy", "poddisruptionbudgets poddisruptionbudgets/status"},
		{read, networkingGroup, "ingresses ingresses/status networkpolicies"},
		{read, resourceGroup, "resourceclaims resourceclaims/status resourceclaimtemplates"},
	}},
}
