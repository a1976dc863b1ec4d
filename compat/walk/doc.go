// Package walk sends every request that a stock kube-apiserver describes to it and to a plane, and compares the responses:
// each path of its OpenAPI document by each method, with the media types and the query parameters that it takes, right and
// wrong ones, for objects that exist and for those that do not.
package walk
