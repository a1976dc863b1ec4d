package openapi

import (
	"slices"
)

// Kubernetes' descriptions of the deprecated paths of watches, of which some clients make their methods.
const (
	watchesList   = "watch individual changes to a list of KIND. deprecated: use the 'watch' parameter with a list operation instead."
	watchesObject = "watch changes to an object of kind KIND. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
)

// addWatches adds the deprecated paths of watches: /api/v1/watch/pods. Custom resources have none, as in Kubernetes.
func (r Resource) addWatches(s schemas, paths map[string]*pathItem) {
	if r.Given != nil || r.Event == nil || !slices.Contains(r.Verbs, "watch") {
		return
	}
	event := Schema{Ref: refPrefix + s.add(r.Event)}
	at := func(verb, suffix string) *operation {
		o := &operation{Action: verb, Kind: r.Kind, Parameters: listParameters,
			Responses: map[string]response{"200": {Description: "OK", Content: contents(bodyMedia, event)}}}
		r.describe(o, verb, "")
		o.OperationID += suffix
		return o
	}
	root, placed := r.Path+"/watch/", []parameter(nil)
	if r.Namespaced {
		everywhere := r
		everywhere.Namespaced = false
		list := at("watchlist", "")
		everywhere.describe(list, "watchlist", "")
		list.OperationID += "ListForAllNamespaces"
		paths[root+r.Plural] = &pathItem{Get: list}
		root, placed = root+"namespaces/{namespace}/", []parameter{pathParameter("namespace")}
	}
	paths[root+r.Plural] = &pathItem{Get: at("watchlist", "List"), Parameters: placed}
	paths[root+r.Plural+"/{name}"] = &pathItem{Get: at("watch", ""), Parameters: append(slices.Clone(placed), pathParameter("name"))}
}
