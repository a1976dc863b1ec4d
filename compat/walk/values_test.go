package walk

// accepts are values of the header Accept; %s stands for the name of the version of a table.
var accepts = []string{
	"", "*/*", "application/*", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor",
	"application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
	"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
	"application/yaml;as=Table;g=meta.k8s.io;v=v1", "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
	"application/cbor;as=Table;g=meta.k8s.io;v=v1", "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
	"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
	"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
	"application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/cbor;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"application/cbor;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
	"application/json;as=Table", "application/json;as=Table;g=meta.k8s.io;v=v2", "application/json;as=Other;g=meta.k8s.io;v=v1",
	"application/json;as=Table;g=other.example.com;v=v1", "application/json;g=meta.k8s.io;v=v1",
	"text/html", "text/plain", "text/plain, */*;q=0.1", "application/json;q=0", "application/yaml;q=0.9,application/json;q=0.5",
	"application/json;q=0.5,application/yaml", "application/json;pretty=1", "application/json;pretty=0", "application/json;stream=watch",
	"application/json;stream=other", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq", "application/json;charset=utf-8",
	"application/apply-patch+yaml", "nonsense", ";;;", "application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2", "APPLICATION/JSON",
	"application/json; as=Table; g=meta.k8s.io; v=v1", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
}

// values lists the values of query parameters, as they are sent.
var values = map[string][]string{
	"pretty":          {"true", "false", "1", "0", "yes", "", "true&pretty=false"},
	"dryRun":          {"All", "all", "None", "", "All&dryRun=All", "All&dryRun=x", "All,All", "true"},
	"fieldManager":    {"walk", "", long, "%01", "a%20b", "walk&fieldManager=other", "%ff"},
	"fieldValidation": {"Strict", "Warn", "Ignore", "strict", "", "Strict&fieldValidation=Ignore"},
	"force":           {"true", "false", "1", "x", ""},
	"limit":           {"0", "1", "2", "-1", "x", "", "1.5", "99999999999999999999", "1&limit=2", "0x1"},
	"continue":        {"x", "", forged, forged + "&limit=1", "x&resourceVersion=1", "x&watch=true", "x&resourceVersionMatch=Exact"},
	"resourceVersion": {"0", "1", "x", "-1", "", "+1", "0x1", "01", "99999999999999999999", "0&limit=1", "1.5"},
	"resourceVersionMatch": {"Exact", "NotOlderThan", "x", "Exact&resourceVersion=0", "NotOlderThan&resourceVersion=0", "NotOlderThan&resourceVersion=1",
		"x&resourceVersion=0", "exact&resourceVersion=1", "NotOlderThan&watch=true&timeoutSeconds=1", "Exact&watch=true&timeoutSeconds=1", "Exact&resourceVersion=x", ""},
	"sendInitialEvents": {"true", "false", "x", "true&watch=true&timeoutSeconds=1", "false&watch=true&timeoutSeconds=1", "true&resourceVersionMatch=NotOlderThan",
		"true&watch=true&resourceVersionMatch=Exact&timeoutSeconds=1", "true&watch=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1&allowWatchBookmarks=true",
		"true&watch=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1", "false&watch=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
		"true&watch=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=x"},
	"allowWatchBookmarks": {"true", "false", "x", "x&watch=true&timeoutSeconds=1"},
	"timeoutSeconds":      {"1", "0", "-1", "x", "x&watch=true", "1&watch=1", "1.5", ""},
	"watch":               {"true&timeoutSeconds=1", "1&timeoutSeconds=1", "0", "false", "x", "&timeoutSeconds=1", "false&watch=true&timeoutSeconds=1", "TRUE&timeoutSeconds=1", "t&timeoutSeconds=1"},
	"labelSelector": {"a%3Db", "walk", "a+in+(b,c)", "!walk", "=", "a==", "a!=", "a%3Eb", "a%3E1", "-a", "a=" + long, "a=b,,", ",", "in", "a+in", "a+in+()", "a+notin+(b)",
		"%zz", "a=b&labelSelector=c=d", "walk%3Dwalk&watch=true&timeoutSeconds=1", "==&watch=true", "", "example.com/a=b", "/a", "a=-"},
	"fieldSelector": {"metadata.name=walk", "metadata.name!=walk", "metadata.namespace=walk", "foo=bar", "metadata.name", "metadata.name==walk,metadata.name=x", "status.phase=x",
		"spec.nodeName=", "=", "metadata.name=walk&watch=true&timeoutSeconds=1", "foo=bar&watch=true", "metadata.labels=x", "metadata.name=a%5C%2Cb", "metadata.name=a%5Cb",
		"", "involvedObject.name=walk", "reason=Walks", "type=Opaque", "spec.unschedulable=true", "status.successful=0", "spec.type=ClusterIP", "metadata.name!=a,metadata.namespace!=b", "spec.clusterIP=None"},
	"gracePeriodSeconds": {"0", "1", "30", "-1", "x", "", "9223372036854775807"},
	"orphanDependents":   {"true", "false", "x", "", "true&propagationPolicy=Orphan", "false&propagationPolicy=Background"},
	"propagationPolicy":  {"Orphan", "Background", "Foreground", "x", "orphan", ""},
	"ignoreStoreReadErrorWithClusterBreakingPotential": {"true", "false", "x", "", "true&gracePeriodSeconds=1", "true&propagationPolicy=Orphan", "true&orphanDependents=true"},
	"shardSelector": {"x", ""},
	"path":          {"", "x", "/x", "../x", "%2e%2e/x"},
	"command":       {"", "a", "a&command=b"},
	"container":     {"", "c", "other", "-"},
	"stdin":         {"true", "x", "1"}, "stdout": {"true", "x", "false"}, "stderr": {"true", "x"}, "tty": {"true", "x", "true&stderr=true&stdout=true"},
	"ports":  {"80", "0", "x", "-1", "80,81", "99999"},
	"follow": {"true", "x"}, "previous": {"true", "x"}, "timestamps": {"true", "x"}, "insecureSkipTLSVerifyBackend": {"true", "x"},
	"sinceSeconds": {"1", "0", "-1", "x"}, "limitBytes": {"1", "0", "-1", "x"}, "tailLines": {"1", "0", "-1", "x"}, "stream": {"All", "Stdout", "Stderr", "x", "Stdout&tailLines=1"},
	"": {"foo=bar", "timeout=1s", "timeout=x", "timeout=-1s", "timeout=0", "%zz", "&&", "=", "a;b", "sinceTime=x", "sinceTime=2026-01-01T00:00:00Z&sinceSeconds=1"},
}

const (
	long   = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	forged = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ4In0"
)
