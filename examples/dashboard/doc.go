// Package dashboard tests the dashboard of "ration serve" as people use it: a server that runs, and Chromium without a screen.
package dashboard
