package strategies

import (
	"testing"

	"github.com/planekit/planekit/compat/pair"
)

// allowances are the differences that COMPATIBILITY.md names.
var allowances = pair.Allowances{
	pair.Allowed("`managedFields` of access reviews", `(reviews|/token)\?`, `^\.metadata\.managedFields`, ``),
	pair.Allowed("`managedFields` of access reviews", `reviews\?`, `must be empty`, ``),
	pair.Allowed("a resourceVersion that is no number", `metadata.resourceVersion`, `^code: (500|400|200)`, `^code: 400 .*must be a decimal number`),
	pair.Allowed("fields behind feature gates", `stopSignal|podCertificate|schedulingGroup|operator = "(Gt|Lt)"`, ``, ``),
	pair.Allowed("`selfLink` in a dry run", `^PUT .*selfLink`, `^\.metadata\.selfLink`, `\(none\)$`),
	pair.Allowed("an update with another UID", `metadata\.(uid|resourceVersion)`, `StorageError: invalid object`, `Precondition failed`),
	pair.Allowed("`managedFields` of the status that the server", `/(customresourcedefinitions|apiservices|flowschemas|prioritylevelconfigurations)[/?]`, `^\.metadata\.managedFields`, ``),
	pair.Allowed("values and differences of objects in errors", ``, `(template|spec|persistentvolumesource|versions): .*(Invalid value: \[?\{"|immutable after creation|pod updates may not change)`, ``),
	pair.Allowed("values and differences of objects in errors", `customresourcedefinitions`, `^cause of spec\.validation\.openAPIV3Schema: FieldValueInvalid: Invalid value: .* fields are allowed at the root of the schema`, ``),
	pair.Allowed("ClusterTrustBundles (`certificates", `clusterTrustBundle`, ``, ``),
	pair.Allowed("a definition none of whose versions is served", `customresourcedefinitions/`, `^(\.status\.conditions|cause of spec\.(names|scope).*immutable)`, ``),
	pair.Allowed("a new node", `/nodes`, `^\.spec(\.taints.*)?: `, ``),
	pair.Allowed("`managedFields` of fields that are reset", `/(resize|ephemeralcontainers|validatingwebhookconfigurations|mutatingwebhookconfigurations|daemonsets|csidrivers|horizontalpodautoscalers|leases|csinodes|namespaces|nodes|services)[/?]`, `^\.metadata\.managedFields`, ``),
	pair.Allowed("`managedFields` of access reviews", `(reviews|/token)\?`, `^\.metadata: \(none\)`, `\{\}$`),
	pair.Allowed("a TokenReview", `tokenreviews`, `^\.(spec|status)`, ``),
	pair.Allowed("expressions of an admission policy", `admissionpolicies`, `^cause of .*compilation failed`, ``),
	pair.Allowed("expressions of an admission policy", `(policies|webhookconfigurations)[/?]`, `^cause of .*(xpression: .*must evaluate|compilation failed)`, `\(none\)$`),
	pair.Allowed("errors that Kubernetes lists again", `^PUT .*/(pods|storageclasses|statefulsets)/`,
		`^cause of (spec\.containers\[\d+\]\.image|allowedTopologies\[\d+\]\.matchLabelExpressions|spec\.template\.annotations\[kubernetes\.io/config\.mirror\]): .* [23] times$`, ` 1 times$`),
	pair.Allowed("errors that Kubernetes lists again", `/(horizontalpodautoscalers|certificatesigningrequests|csistoragecapacities)[/?]`, `^~order`, ``),
	pair.Allowed("an empty list where there was none", `(webhookconfigurations/.*(Selector\.matchExpressions = \[\]|caBundle = "")|^PUT .*/networkpolicies/.* = (\[\]|\{\}))`, `^\.metadata\.generation`, ``),
	pair.Allowed("`deprecatedTopology` in an update", `^PUT .*/endpointslices/.*deprecatedTopology`, `^\.metadata\.generation: 2$`, `: 1$`),
	pair.Allowed("an empty list where there was none", `(rules = \[\]|limits = \[\]|conversionReviewVersions = null)`, `(rules|limits|conversionReviewVersions): (null|<nil>|\(none\))`, ``),
	pair.Allowed("a definition with a schema that is none", `openAPIV3Schema\.(items|dependencies)`, `^(code: (409|422)|\.message: .*cannot unmarshal)`, `^(code: 400|\.message: .*cannot unmarshal)`),
	pair.Allowed("a definition none of whose versions is served", `customresourcedefinitions/.*spec\.names`, `^code: 422 .*immutable`, `^code: 200`),
	pair.Allowed("statuses of devices of a pod", `/status.*(allocatedResourcesStatus|extendedResourceClaimStatus)`, `^code: 422 .*status\.(extendedResourceClaimStatus|\w+Statuses\[\d+\]\.allocatedResourcesStatus)`, `^code: 200`),
	pair.Allowed("a dry run of a Service", `/services\?`, `cause of spec\.clusterIPs: .*(failed to allocate IP)`, ``),
	pair.Allowed("`deprecated.daemonset.template.generation`", `/daemonsets/walk/status`, `(deprecated\.daemonset|ParseInt)`, ``),
	pair.Allowed("values and differences of objects in errors", `deployments/.*spec\.strategy`, `^cause of spec\.strategy: FieldValueNotSupported: `, ``),
	pair.Allowed("warnings of an update of a ReplicationController", `^PUT .*/replicationcontrollers/`, `^header Warning`, ``),
	pair.Allowed("a binding without a target", `(binding|eviction)\?`, `^code: (500|201)`, ``),
}

// TestRows: each allowance names a row of COMPATIBILITY.md.
func TestRows(t *testing.T) { allowances.Rows(t) }
