package rbac

import (
	"github.com/planekit/planekit/authn/user"
)

// componentRoles are the roles of the components of a cluster.
var componentRoles = []roleTemplate{
	{name: "system:heapster", rules: []line{
		{read, "core", "events namespaces nodes pods"},
		{read, "extensions", "deployments"},
	}},
	{name: "system:node", rules: []line{
		{"create", authenticationGroup, "tokenreviews"},
		{"create", authorizationGroup, "localsubjectaccessreviews subjectaccessreviews"},
		{read, "core", "services pods configmaps secrets"},
		{read + " create", "core", "nodes"},
		{"update patch", "core", "nodes/status nodes pods/status"},
		events,
		{"create delete", "core", "pods"},
		{"create", "core", "pods/eviction serviceaccounts/token"},
		{"get", "core", "persistentvolumeclaims persistentvolumes endpoints serviceaccounts"},
		{read + " create", certificatesGroup, "certificatesigningrequests"},
		{"get create update patch delete", coordinationGroup, "leases"},
		{"get", storageGroup, "volumeattachments"},
		{"get update patch", "core", "persistentvolumeclaims/status"},
		{read, storageGroup, "csidrivers"},
		{"get create update patch delete", storageGroup, "csinodes"},
		{read, "node.k8s.io", "runtimeclasses"},
		{"get", resourceGroup, "resourceclaims"},
		{"deletecollection", resourceGroup, "resourceslices"},
		{read, certificatesGroup, "clustertrustbundles"},
	}},
	{name: "system:node-problem-detector", rules: []line{
		{"get", "core", "nodes"},
		{"patch", "core", "nodes/status"},
		events,
	}},
	{name: "system:node-bootstrapper", rules: []line{
		{read + " create", certificatesGroup, "certificatesigningrequests"},
	}},
	{name: "system:auth-delegator", rules: []line{
		{"create", authenticationGroup, "tokenreviews"},
		{"create", authorizationGroup, "subjectaccessreviews"},
	}},
	{name: "system:kube-aggregator", rules: []line{
		{read, "core", "endpoints services"},
	}},
	{name: "system:kube-controller-manager", users: user.ControllerManager, rules: []line{
		events,
		{"create", coordinationGroup, "leases"},
		{"get update", coordinationGroup, "leases=kube-controller-manager"},
		{"create", "core", "secrets serviceaccounts serviceaccounts/token"},
		{"delete", "core", "secrets"},
		{"get", "core", "configmaps namespaces secrets serviceaccounts"},
		{"update", "core", "secrets serviceaccounts"},
		{"create", authenticationGroup, "tokenreviews"},
		{"create", authorizationGroup, "subjectaccessreviews"},
		{"list watch", "*", "*"},
	}},
	{name: "system:kube-dns", accounts: "kube-dns", rules: []line{
		{"list watch", "core", "endpoints services"},
	}},
	{name: "system:persistent-volume-provisioner", rules: []line{
		{read + " create delete", "core", "persistentvolumes"},
		{read + " update", "core", "persistentvolumeclaims"},
		{read, storageGroup, "storageclasses"},
		{"watch", "core", "events"},
		events,
	}},
	{name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient", rules: []line{
		{"create", certificatesGroup, "certificatesigningrequests/nodeclient"},
	}},
	{name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", rules: []line{
		{"create", certificatesGroup, "certificatesigningrequests/selfnodeclient"},
	}},
	{name: "system:volume-scheduler", users: user.Scheduler, rules: []line{
		{read + " update patch", "core", "persistentvolumes persistentvolumeclaims"},
		{read, storageGroup, "storageclasses"},
	}},
	{name: "system:certificates.k8s.io:legacy-unknown-approver", rules: []line{
		{"approve", certificatesGroup, "signers=kubernetes.io/legacy-unknown"},
	}},
	{name: "system:certificates.k8s.io:kubelet-serving-approver", rules: []line{
		{"approve", certificatesGroup, "signers=kubernetes.io/kubelet-serving"},
	}},
	{name: "system:certificates.k8s.io:kube-apiserver-client-approver", rules: []line{
		{"approve", certificatesGroup, "signers=kubernetes.io/kube-apiserver-client"},
	}},
	{name: "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver", rules: []line{
		{"approve", certificatesGroup, "signers=kubernetes.io/kube-apiserver-client-kubelet"},
	}},
	{name: "system:kubelet-api-admin", rules: []line{
		{read, "core", "nodes"},
		{"proxy", "core", "nodes"},
		{"*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats nodes/configz nodes/healthz"},
		{"*", "core", "nodes/pods"},
	}},
	{name: "system:node-proxier", users: "system:kube-proxy", rules: []line{
		{"list watch", "core", "endpoints services"},
		{read, "core", "nodes"},
		events,
		{"list watch", networkingGroup, "servicecidrs"},
		{"list watch", discoveryGroup, "endpointslices"},
	}},
	{name: "system:kube-scheduler", users: user.Scheduler, rules: []line{
		events,
		{"create", coordinationGroup, "leases"},
		{read + " update", coordinationGroup, "leases=kube-scheduler"},
		{readWrite, coordinationGroup, "leasecandidates"},
		{read, "core", "nodes replicationcontrollers services persistentvolumeclaims persistentvolumes"},
		{read, "core", "namespaces"},
		{read + " delete", "core", "pods"},
		{"create", "core", "bindings pods/binding"},
		{"update patch", "core", "pods/status"},
		{read, "apps extensions", "replicasets"},
		{read, "apps", "statefulsets"},
		{read, "policy", "poddisruptionbudgets"},
		{"create", authenticationGroup, "tokenreviews"},
		{"create", authorizationGroup, "subjectaccessreviews"},
		{read, storageGroup, "csinodes volumeattachments csidrivers csistoragecapacities"},
		{read, resourceGroup, "deviceclasses resourceslices"},
		{read + " update patch", resourceGroup, "resourceclaims resourceclaims/status"},
		{"update", "core", "pods/finalizers"},
		{"create delete", resourceGroup, "resourceclaims"},
		{"update patch", resourceGroup, "resourceclaims/binding"},
	}},
}
