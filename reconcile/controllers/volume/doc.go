// Package volume holds the controllers of persistent volumes and their claims: [Binder] binds claims to
// volumes that exist, [Ephemeral] creates the claims of pods' ephemeral volumes, and
// [ClaimProtection] and [Protection] keep claims and volumes that are being deleted while they are
// in use.
//
// Not included: making volumes, which is the work of provisioners outside (the binder asks them, as
// in Kubernetes, by annotation), deleting or recycling their contents, and resizing.
package volume
