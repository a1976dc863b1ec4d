// Package endpoints holds the controllers of the addresses of services: [SliceController] writes
// EndpointSlices, [Controller] writes Endpoints for older clients, and [Mirror] copies Endpoints that
// users wrote into slices.
package endpoints
