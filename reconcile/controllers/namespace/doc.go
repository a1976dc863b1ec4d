// Package namespace holds the controller that empties namespaces that are being deleted.
package namespace
