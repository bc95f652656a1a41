(function (model) { 'use strict'; return {}; })
