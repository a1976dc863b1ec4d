// Package serviceaddress holds the controllers of the addresses of services.
//
// The API server gives the addresses: it creates an IPAddress for each before it stores the service.
// [Ranges] looks after the ServiceCIDRs that the addresses are from, and [Repair] after IPAddresses and
// services that do not fit together.
package serviceaddress
