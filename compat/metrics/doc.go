// Package metrics compares the metrics of a whole plane with those that Kubernetes calls STABLE or BETA
// (k8s.io/kubernetes/test/instrumentation/testdata/stable-metrics-list.yaml), and with those of a running kube-apiserver:
// their names, types, labels and buckets. Both tests expect the differences that a table of COMPATIBILITY.md lists, and no others.
// A third one, TestReference, draws docs/reference/metrics.md from what all components declare.
package metrics
