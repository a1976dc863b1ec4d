package main

import (
	"net/http"
	"net/http/pprof"
)

// profiles returns the handlers of /debug/pprof, nil without --profiling. They have the paths of
// kube-apiserver, and authorization asks for them like for any other path: an administrator may.
func (o *options) profiles() map[string]http.Handler {
	if !o.profiling {
		return nil
	}
	return map[string]http.Handler{
		"/debug/pprof":         http.RedirectHandler("/debug/pprof/", http.StatusMovedPermanently),
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}
