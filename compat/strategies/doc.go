// Package strategies creates and updates objects of every built-in kind on a stock kube-apiserver and on a plane, and
// compares what is stored, refused and warned of: each field of the kind alone, with right and odd values, pairs of fields,
// and old annotations that stand for fields.
package strategies
