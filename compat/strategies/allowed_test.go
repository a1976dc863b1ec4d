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
	pair.Allowed("an update with another UID", `metadata\.uid`, `StorageError: invalid object`, `Precondition failed`),
	pair.Allowed("`managedFields` of the status that the server", `/(customresourcedefinitions|apiservices|flowschemas|prioritylevelconfigurations)[/?]`, `^\.metadata\.managedFields`, ``),
	pair.Allowed("values and differences of objects in errors", ``, `(template|spec|persistentvolumesource|versions): .*(Invalid value: \[?\{"|immutable after creation|pod updates may not change)`, ``),
	pair.Allowed("ClusterTrustBundles (`certificates", `clusterTrustBundle`, ``, ``),
	pair.Allowed("a definition none of whose versions is served", `customresourcedefinitions/`, `^(\.status\.conditions|cause of spec\.(names|scope).*immutable)`, ``),
	pair.Allowed("a new node", `/nodes`, `^\.spec(\.taints.*)?: `, ``),
	pair.Allowed("`managedFields` of fields that are reset", `/(resize|ephemeralcontainers|validatingwebhookconfigurations|mutatingwebhookconfigurations|daemonsets|csidrivers|horizontalpodautoscalers|leases|csinodes|namespaces|nodes|services)[/?]`, `^\.metadata\.managedFields`, ``),
	pair.Allowed("`managedFields` of access reviews", `(reviews|/token)\?`, `^\.metadata: \(none\)`, `\{\}$`),
	pair.Allowed("a TokenReview", `tokenreviews`, `^\.(spec|status)`, ``),
	pair.Allowed("expressions of an admission policy", `admissionpolicies`, `^cause of .*compilation failed`, ``),
	pair.Allowed("warnings of an update of a ReplicationController", `^PUT .*/replicationcontrollers/`, `^header Warning`, ``),
	pair.Allowed("a binding without a target", `(binding|eviction)\?`, `^code: (500|201)`, ``),
}

// TestRows: each allowance names a row of COMPATIBILITY.md.
func TestRows(t *testing.T) { allowances.Rows(t) }
